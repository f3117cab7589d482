#!/bin/sh
# two_hosts.sh --probe
# two_hosts.sh MPIRUN RANKS_PER_HOST PROGRAM [ARGUMENT...]
# two_hosts.sh --launcher COMMAND [ARGUMENT...]
# two_hosts.sh --disconnect PROCESS
#
# Runs PROGRAM under mpirun on two hosts, ranks on each, or on the first of them COMMAND, which starts
# mpirun for the hosts 10.213.0.1 and 10.213.0.2 itself: two network namespaces with host names of
# their own, joined by a veth pair and by nothing else. Instead of ssh, mpirun enters the other
# namespace. Everything lives in mount, network and PID namespaces of this run alone, so that the
# kernel takes it all away when the run ends, however it ends. Needs root or user namespaces, and
# the commands ip (iproute2), unshare and nsenter (util-linux).
#
# --disconnect takes the network from the host that runs PROCESS, as one that loses its cable or its
# power: nothing comes from it any more, not even that a connection is closed.
#
# On the second host the folder $TANDEM_TWO_HOSTS_FROM lies over $TANDEM_TWO_HOSTS_OVER, where they
# are set: what its ranks write into the one goes into the other.
set -eu

address_a=10.213.0.1
address_b=10.213.0.2

# Runs a command on a host: enter NAMESPACE HOSTNAME COMMAND...
enter() {
  namespace=$1
  name=$2
  shift 2
  ip netns exec "$namespace" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$name" "$@"
}

if [ "${1:-}" = --disconnect ]; then
  user=
  [ "$(id -u)" -eq 0 ] || user="--user --preserve-credentials"
  for side in a b; do
    # shellcheck disable=SC2086
    nsenter --target "$2" $user --net ip link set "veth-$side" down 2> /dev/null && exit
  done
  echo "two_hosts.sh: process $2 has no network to lose" >&2
  exit 1
fi

case ${TANDEM_TWO_HOSTS:-outside} in
  outside)
    script=$(readlink -f "$0")
    user=
    [ "$(id -u)" -eq 0 ] || user="--user --map-root-user"
    # shellcheck disable=SC2086
    TANDEM_TWO_HOSTS=inside exec unshare $user --mount --net --pid --fork --kill-child --mount-proc \
      "$script" "$@"
    ;;
  agent)
    # mpirun calls its remote shell as: agent HOST COMMAND...
    [ "$1" = "$address_b" ] || { echo "two_hosts.sh: no host $1" >&2; exit 1; }
    shift
    # ip netns exec gives the command a mount namespace of its own.
    # shellcheck disable=SC2016
    enter tandem-b node-b sh -c '
      [ -z "${TANDEM_TWO_HOSTS_OVER:-}" ] ||
        mount --bind "$TANDEM_TWO_HOSTS_FROM" "$TANDEM_TWO_HOSTS_OVER" || exit 1
      eval "$0"' "$*"
    exit
    ;;
esac

mount -t tmpfs tmpfs /run
# Names there are made of host names and process ids, which are those of other runs too.
mount -t tmpfs tmpfs /dev/shm
export TMPDIR=/run/tmp
mkdir "$TMPDIR"
ip netns add tandem-a
ip netns add tandem-b
ip link add veth-a netns tandem-a type veth peer name veth-b netns tandem-b
for side in a b; do
  eval "address=\$address_$side"
  ip -n "tandem-$side" link set lo up
  ip -n "tandem-$side" link set "veth-$side" up
  ip -n "tandem-$side" address add "$address/24" dev "veth-$side"
done

if [ "$1" = --probe ]; then
  enter tandem-b node-b true
  exit
fi

export TANDEM_TWO_HOSTS=agent
export TANDEM_TEST_HOSTS=2
export OMPI_MCA_plm_rsh_agent="$(readlink -f "$0")"
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
export OMPI_MCA_btl_tcp_if_include=10.213.0.0/24 OMPI_MCA_oob_tcp_if_include=10.213.0.0/24
if [ "$1" = --launcher ]; then
  shift
  enter tandem-a node-a "$@"
  exit
fi

mpirun=$1
ranks=$2
shift 2
enter tandem-a node-a "$mpirun" --host "$address_a:$ranks,$address_b:$ranks" \
  -n $((2 * ranks)) --map-by slot \
  -x TANDEM_TEST_HOSTS -x OMP_NUM_THREADS -x ASAN_OPTIONS -x LSAN_OPTIONS "$@"
