#include "device/machine.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/host_name.h"
#include "device/cpu_quota.h"

namespace tandem {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};

}  // namespace

Machine read_machine() {
  hwloc_topology_t raw = nullptr;
  TANDEM_CHECK(hwloc_topology_init(&raw) == 0, "hwloc cannot start");
  const std::unique_ptr<hwloc_topology, TopologyDeleter> topology(raw);
  TANDEM_CHECK(hwloc_topology_load(raw) == 0, "hwloc cannot read this machine");

  Machine machine;
  machine.hostname = host_name();
  machine.cores = std::max(1, hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE));
  machine.numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_NUMANODE));
  // Not hwloc's: NUMA nodes' own figures miss memory that was plugged in later.
  machine.memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  machine.bound_cores = machine.cores;
  const std::unique_ptr<hwloc_bitmap_s, BitmapDeleter> bound(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(raw, bound.get(), HWLOC_CPUBIND_PROCESS) == 0) {
    int count = 0;
    for (hwloc_obj_t core = nullptr;
         (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core)) != nullptr;) {
      count += hwloc_bitmap_intersects(core->cpuset, bound.get());
    }
    machine.bound_cores = std::max(1, count);
  }
  machine.quota_cores = static_cast<int>(std::ceil(std::min(cpu_quota().value_or(0.0), 1e6)));
  for (const hwloc_obj_t object :
       {hwloc_get_obj_by_type(raw, HWLOC_OBJ_PACKAGE, 0), hwloc_get_root_obj(raw)}) {
    if (object == nullptr || !machine.cpu_model.empty()) continue;
    if (const char* model = hwloc_obj_get_info_by_name(object, "CPUModel")) {
      machine.cpu_model = model;
    }
  }
  return machine;
}

int default_threads(const Machine& machine, int colocated) {
  TANDEM_CHECK(colocated >= 1, "{} co-located processes", colocated);
  return std::max(1, std::min(machine.usable_cores() / colocated, machine.bound_cores));
}

}  // namespace tandem
