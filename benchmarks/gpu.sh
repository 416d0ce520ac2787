#!/usr/bin/env bash
# All that needs a GPU: the tests, at once, and then the benchmarks, each alone. Their outputs go into the folder $1.
# About $2 seconds (100): the last benchmark leaves out the cells for which no time is left.
set -u
mkdir -p "${1:?Name a folder for the outputs: benchmarks/gpu.sh FOLDER [SECONDS]}"
out=$(cd "$1" && pwd) limit=${2:-100} python=${PYTHON:-python3} failed=()
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
run engine_op timeout 200 "$python" -m benchmarks.cost.engine_op --output "$out/engine_op.json" || failed+=(engine_op)
left=$((limit - SECONDS - 25)) # it takes seconds to make the models, and to end the last cell
if ((left > 0)); then
	settings=(--lengths 1024 8192 --rows 1 8 --prompt 1024 --rounds 5 --seconds "$left") # those of results/gpu.json
	run gpu timeout $((left + 60)) "$python" -m benchmarks.cost.gpu --output "$out/gpu.json" "${settings[@]}" || failed+=(gpu)
else
	echo "== gpu: left out, no time is left"
fi
if ((${#failed[@]})); then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed after $SECONDS s"
