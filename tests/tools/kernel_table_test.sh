#!/usr/bin/env bash
# kernel_table_test.sh SOURCE WORK: what benchmarks/kernel_table.py makes of a file of ncu's that is
# made up, beside a table computed by hand.
set -euo pipefail
source=$1
work=$2

rm -rf "$work"
mkdir -p "$work"
cat >"$work/step.csv" <<'CSV'
"ID","Kernel Name","Block Size","Grid Size","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"
"","","","","Mbyte","Kbyte","ns"
"0","first step/tandem::<unnamed>::begin_step(const tandem::StepOrder *)","(1, 1, 1)","(1, 1, 1)","0","0","4,000"
"1","first step/stem/nvjet_hsh_128x256","(128, 1, 1)","(9, 1, 1)","120","80,000","100,000"
"2","first step/stem/void tandem::<unnamed>::statistics_kernel<__nv_bfloat16>(int)","(64, 1, 1)","(2, 1, 1)","30","20,000","10,000"
"3","first step/relu/void at::native::copy(int)","(32, 1, 1)","(8, 1, 1)","8","8,000","16,000"
"4","first step/fc/void splitKreduce_kernel<tandem_like>(int)","(32, 1, 1)","(8, 1, 1)","40.0","0","20,000"
"5","first step/fc/void tandem::<unnamed>::statistics_kernel<float>(int)","(64, 1, 1)","(1, 1, 1)","50","0","30,000"
CSV
# MB a us are TB/s. Products: 100 + 20 us, 120 + 80 + 40 MB. Statistics: 10 + 30 us, 30 + 20 + 50 MB.
cat >"$work/table" <<'TEXT'
| kernels | number | us | GB | TB/s |
| --- | --- | --- | --- | --- |
| products and what adds up their parts | 2 | 120 | 0.24 | 2.00 |
| statistics_kernel | 2 | 40 | 0.10 | 2.50 |
| void at::native::copy(int) | 1 | 16 | 0.02 | 1.00 |
| begin_step | 1 | 4 | 0.00 | 0.00 |
| all | 6 | 180 | 0.36 | 1.98 |
TEXT
cat >"$work/lines" <<'CSV'
layer and kernel,block,grid,us,MB read,MB written
first step/tandem::<unnamed>::begin_step(const tandem::StepOrder *),"(1, 1, 1)","(1, 1, 1)",4.0,0.0,0.0
stem/nvjet_hsh_128x256,"(128, 1, 1)","(9, 1, 1)",100.0,120.0,80.0
stem/void tandem::<unnamed>::statistics_kernel<__nv_bfloat16>(int),"(64, 1, 1)","(2, 1, 1)",10.0,30.0,20.0
relu/void at::native::copy(int),"(32, 1, 1)","(8, 1, 1)",16.0,8.0,8.0
fc/void splitKreduce_kernel<tandem_like>(int),"(32, 1, 1)","(8, 1, 1)",20.0,40.0,0.0
fc/void tandem::<unnamed>::statistics_kernel<float>(int),"(64, 1, 1)","(1, 1, 1)",30.0,50.0,0.0
CSV

# table FILE OPTIONS: prints the table by hand.
table() {
  "$source/benchmarks/kernel_table.py" "$@" | diff "$work/table" - >&2
}

# refuses FILE WORDS: by one line.
refuses() {
  local status=0
  "$source/benchmarks/kernel_table.py" "$1" >"$work/out" 2>&1 || status=$?
  if [[ $status != 1 || $(cat "$work/out") != "kernel_table.py: $1: $2" ]]; then
    echo "exit code $status and $(cat "$work/out")" >&2
    exit 1
  fi
}

table "$work/step.csv" --out "$work/step_ncu.csv"
diff "$work/lines" "$work/step_ncu.csv" >&2
table "$work/step_ncu.csv"
sed '2s/Kbyte/Kibyte/' "$work/step.csv" >"$work/unit.csv"
refuses "$work/unit.csv" \
  "unknown unit 'Kibyte'; known are ns, us, ms, byte, Kbyte, Mbyte, Gbyte (ncu --print-units base)"
sed '1s/_read/_red/' "$work/step.csv" >"$work/counter.csv"
refuses "$work/counter.csv" "no column 'dram__bytes_read.sum'; run ncu with the metrics that --help names"
: >"$work/empty.csv"
refuses "$work/empty.csv" "no column 'Kernel Name'; run ncu with the metrics that --help names"
