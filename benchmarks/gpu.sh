#!/usr/bin/env bash
# Everything that is measured on a GPU, in at most 25 minutes on one H100 or H200:
#
#     benchmarks/gpu.sh [FOLDER]     (default: benchmarks/results)
#     benchmarks/gpu.sh --small FOLDER     the same commands at small dimensions, on a CPU as well
#
# Writes gpu.json (decoding and prefill) and gpu_calculator.json (operations per second). A part that fails does not
# stop the other; the exit code says whether one did. PYTHON names the interpreter (default: python).
set -uo pipefail
cd "$(dirname "$0")/.."

decode=(--rounds "${ROUNDS:-12}")
calculator=(--digits 5 20 40 --batches 4096 65536 --repetitions 3)
if [ "${1:-}" = --small ]; then
    shift
    decode=(--shape tiny --lengths 64 --rows 1 2 --prompt 64 --rounds 3)
    calculator=(--digits 5 --batches 16 --repetitions 1 --operations + all)
fi
folder=${1:-benchmarks/results}
mkdir -p "$folder"

failed=0
run() {
    echo "== $*"
    "${PYTHON:-python}" -m "$@" || { echo "failed: $*" >&2; failed=1; }
}
run benchmarks.cost.gpu "${decode[@]}" --output "$folder/gpu.json"
run benchmarks.cost.calculator "${calculator[@]}" --output "$folder/gpu_calculator.json"
exit "$failed"
