#!/bin/bash
# Measures rebuilds with the CPU and with a GPU as coder, on a machine with one, and compares the GPU's bytes with the CPU's.
#
#   cargo build --release -p ashlar-raid --example rebuild --features gpu
#   OUT=/tmp/out tests/device/gpu-rebuild.sh [PROGRAM]
#
# PROGRAM is target/release/examples/rebuild unless named. Members are files of SIZE MiB (512) in memory, one more than a code of LEVELS
# (8+2,8+4,14+4,20+10) has rows, at most 31.
# Writes $OUT/gpu-rebuild.jsonl, one JSON object per measurement, $OUT/gpu-auto.jsonl and $OUT/gpu-rebuild.txt. No measurement begins after BUDGET
# seconds (230). To test it on a machine without a GPU: CODERS=cpu CORES=1,2 SIZE=64.
set -u
program=${1:-target/release/examples/rebuild}
out=${OUT:?the folder for results}
size=${SIZE:-512}
budget=${BUDGET:-230}
coders=${CODERS:-cpu,gpu}
cores=${CORES:-1,4,8,16}
levels=${LEVELS:-8+2,8+4,14+4,20+10}
results=$out/gpu-rebuild.jsonl
text=$out/gpu-rebuild.txt
folder=/dev/shm
failed=0
: >"$results"
exec > >(tee "$text") 2>&1

now() { echo "== $SECONDS s: $*"; }

# measure SECONDS-AT-MOST ARGUMENT...
measure() {
  local most=$1; shift
  if ((SECONDS + 5 > budget)); then now "left out, the time is over: $*"; failed=1; return; fi
  ((SECONDS + most > budget)) && most=$((budget - SECONDS))
  now "$*"
  if ! timeout "$most" "$program" folder="$folder" "$@" >"$out/last"; then failed=1; echo "FAILED: $*"; fi
  rm -f "$folder"/rebuild-*
  cat "$out/last"
  cat "$out/last" >>"$results"
}

# A container can have a small /dev/shm.
if (($(df --output=avail -m /dev/shm | tail -1) < 32 * size)); then
  folder=$(mktemp -d) && mount -t tmpfs -o "size=$((32 * size))m" tmpfs "$folder" || exit 1
fi

now "$(date -u) $(uname -r) $(nproc) cores, $(awk '/MemTotal/ {print int($2 / 1048576)}' /proc/meminfo) GiB"
lscpu | grep -E 'Model name|L2|L3|NUMA node'
df -h "$folder" | tail -1
command -v nvidia-smi >/dev/null &&
  nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader

for coder in ${coders//,/ }; do measure 40 verify="${VERIFY:-300}" coder="$coder"; done
# What the program chooses by itself.
results=$out/gpu-auto.jsonl measure 30 level=8+2 size=64 repeat=1 coder=auto threads="$cores"
for level in ${levels//,/ }; do
  measure 70 level=$level size="$size" coder="$coders" threads="$cores" repeat="${REPEAT:-3}"
done
measure 40 level=8+4 size="$size" coder="$coders" threads=1 batch=1,2,8,16 repeat=2
rm -f "$out/last"
if command -v python3 >/dev/null; then
  python3 - "$results" <<'END'
import json, statistics, sys
rows = {}
for line in open(sys.argv[1]):
    r = json.loads(line)
    if r["what"] in ("rebuild", "check"):
        coder = "-" if r["what"] == "check" else r["coder"].split(" ")[0]
        rows.setdefault((r["what"], r["code"], r["batch_mib"], r["threads"], coder), []).append(r)
print("what     code   batch  cores  coder  GB/s read [least, most]   MB/s of the drive   CPU-s/GiB read")
for (what, code, batch, threads, coder), all in rows.items():
    g = sorted(r["read_gb_s"] for r in all)
    mid = lambda name: statistics.median(r[name] for r in all)
    print(f"{what:8} {code:6} {batch:5} {threads:6}  {coder:5}  {mid('read_gb_s'):6.2f} [{g[0]:.2f}, {g[-1]:.2f}]"
          f"   {mid('drive_mb_s'):10.0f}   {mid('cpu_s_per_gib_read'):8.3f}")
END
fi
now "done, failed: $failed"
exit "$failed"
