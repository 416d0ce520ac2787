#!/usr/bin/env bash
# All that needs a GPU: the tests, at once, and then the benchmarks, each alone. Their outputs go into the folder $1.
set -u
mkdir -p "${1:?Name a folder for the outputs: benchmarks/gpu.sh FOLDER}"
out=$(cd "$1" && pwd) python=${PYTHON:-python3} failed=()
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1

run() { # NAME COMMAND...: has written the last lines of its output here, too, when it ends
	local name=$1 begun=$SECONDS code=0
	shift
	"$@" >"$out/$name.txt" 2>&1 || code=$?
	echo "== $name: exit code $code after $((SECONDS - begun)) s" && tail -n 8 "$out/$name.txt"
	return $code
}

declare -A tests
files=(numbers/test_calculator tuner/test_compiled tuner/test_generation)
if "$python" -c "import datasets, trl" 2>/dev/null; then
	files+=(sft/test_demonstration)
else
	echo "== test_demonstration: left out, it needs datasets and trl"
fi
for file in "${files[@]}"; do
	run "${file#*/}" timeout 120 "$python" -m pytest -q -W default -p no:cacheprovider -m gpu "tests/$file.py" &
	tests[${file#*/}]=$!
done
for name in "${!tests[@]}"; do
	wait "${tests[$name]}" || failed+=("$name")
done
for name in engine_op gpu; do
	run $name timeout 200 "$python" -m benchmarks.cost.$name --output "$out/$name.json" || failed+=($name)
done
if ((${#failed[@]})); then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed after $SECONDS s"
