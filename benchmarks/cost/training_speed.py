"""How fast IGC trains: what pre-training the reading saves, and one training step beside LoRA's.

`--part stages`: the reading needs the layers up to its own only, so it can be trained alone first, in short passes
(`IGCSFTConfig.igc_reading_steps`). On the embedded base, token interface, equal rows and equally many steps:

* `both`: reading and writing in every step;
* `reading_first_half`, `reading_first_two_thirds`: the reading alone for that part of the steps, then both;
* `demo`: the writing in every fourth step, as `peft-igc demo` trains.

Told are seconds of training, steps per second of both kinds of passes, exact match on the way (whole answers, greedy,
on validation items: others than the test's, but for the small complete sets), seconds until it has come to 99%, and
exact match of BIG-bench's form at the end. The learning rate's schedule is the same for all, so a writing that begins
late learns with a lower rate; and an arm with shorter steps could afford more of them. The first three arms see the
same batches in the same order, `demo` the same rows in another one.

`--part step`: `training_steps.py`. Shapes that need a GPU are left out where there is none, and the file says so.

    python -m benchmarks.cost.training_speed --output benchmarks/results/training_speed.json \\
        --figure benchmarks/results/training_speed.png
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState

from benchmarks.accuracy.ablations import SEARCH_SEED, TEST_SEED, VALIDATION_SEED, train
from benchmarks.common.measuring import facts, summary
from benchmarks.cost import step_times
from benchmarks.cost.step_times import ALONE, WHOLE, StepTimes
from benchmarks.cost.training_cost import TARGET
from benchmarks.cost.training_steps import METHODS, READS, SIZES, WRITES, Plan, left_out, measure, table
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.demo.settings import SETTINGS, DemoSettings
from peft_igc.inference.evaluation import evaluate


PARTS = ("stages", "step")
BOTH = "both"
ARMS = {  # the part of the steps that is for the reading alone at first; in how many steps the writing is trained once
    BOTH: (0.0, 1),
    "reading_first_half": (1 / 2, 1),
    "reading_first_two_thirds": (2 / 3, 1),
    "demo": (0.0, SETTINGS["tokens"].writing_every),
}
GATE = {"steps": 3, "reading_steps": 2, "writing_every": 1, "warmup_steps": 0, "batch_size": 4, "checks": 0}
GATE_ROWS = 32


def settings_of(arm: str, arguments: argparse.Namespace) -> DemoSettings:
    """The demonstration's settings with an arm's stages."""
    part, every = ARMS[arm]
    steps = arguments.steps
    return dataclasses.replace(
        SETTINGS["tokens"],
        steps=steps,
        reading_steps=round(part * steps),
        writing_every=every,
        distinct_rows=arguments.distinct_rows,
        checks=max(1, steps // arguments.every),
        log_every=min(arguments.every, steps),
    )


class Watch(TrainerCallback):
    """In which steps the last layer was run, and which mappings each step moved."""

    def __init__(self) -> None:
        self.ran: set[int] = set()
        self.moved: list[set[str]] = []

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Hooks the last decoder layer."""
        self.model = kwargs["model"]
        last = self.model.get_base_model().model.layers[-1]
        self.hook = last.register_forward_hook(lambda *_: self.ran.add(state.global_step))
        self.weights = self._copies()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Compares with the step before."""
        before, self.weights = self.weights, self._copies()
        changed = [name for name in before if not torch.equal(before[name], self.weights[name])]
        self.moved.append({part for part in (READS, WRITES) if any(part in name for name in changed)})

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Takes the hook away."""
        self.hook.remove()

    def _copies(self) -> dict[str, torch.Tensor]:
        return {name: p.detach().clone() for name, p in self.model.named_parameters() if p.requires_grad}


def check_stages(settings: DemoSettings, watch: Watch, times: StepTimes) -> None:
    """Refuses a two-stage training that does not do what it is measured for.

    Raises:
        SystemExit: A step of the first stage ran the layers above or moved the writing, one of the second did not; or
            the clock counted steps as something else.
    """
    first, steps = settings.reading_steps, settings.steps
    if watch.ran != set(range(first, steps)):
        raise SystemExit(
            f"Gate: the last layer ran in the steps {sorted(watch.ran)}, not in {first} to {steps - 1}: the first "
            "stage does not end behind the reading. Nothing is reported."
        )
    expected = [{READS}] * first + [{READS, WRITES}] * (steps - first)
    if watch.moved != expected:
        raise SystemExit(f"Gate: the steps moved {watch.moved}, not {expected}. Nothing is reported.")
    kinds = [step["kind"] for step in times.steps]
    if kinds != [ALONE] * first + [WHOLE] * (steps - first):
        raise SystemExit(f"Gate: the clock saw steps of the kinds {kinds}. Nothing is reported.")


def gate() -> None:
    """A short training in two stages, watched."""
    # Without refusals, so that every batch has a result to write.
    mixture = dataclasses.replace(SETTINGS["tokens"].mixture, none=0, unsupported=0, look_alikes=0)
    settings = dataclasses.replace(SETTINGS["tokens"], distinct_rows=GATE_ROWS, mixture=mixture, **GATE)
    watch, times = Watch(), StepTimes()
    train("igc", SEARCH_SEED, settings, [], [], name="gate", callbacks=[watch, times])
    check_stages(settings, watch, times)
    print("stages: the gate is green", flush=True)


def run(arm: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One arm with one seed: trained, timed and tested."""
    settings = settings_of(arm, arguments)
    tested = bigbench_test_set(arguments.per_group, TEST_SEED)
    validation = bigbench_test_set(arguments.validation, VALIDATION_SEED)
    times = StepTimes()
    model, tokenizer, told = train("igc", seed, settings, validation, tested, name=arm, callbacks=[times])
    report = evaluate(model, tokenizer, tested, max_new_tokens=settings.max_new_tokens)
    print(f"{arm}, seed {seed}  {report['exact_match']:.2%} after {told['seconds']:.0f} s", flush=True)
    return {
        **told,
        "reading_steps": settings.reading_steps,
        "writing_every": settings.writing_every,
        "passes": times.by_kind(),
        "first_at_target": next((one for one in told["checks"] if one["exact_match"] >= TARGET), None),
        **{key: report[key] for key in ("n", "exact_match", "groups", "mistakes")},
    }


def savings(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Seconds of each arm as parts of those of `both`, of the same seed; to the target where both came to it."""
    told: dict[str, Any] = {}
    for arm, seeds in runs.items():
        pairs = [(run, runs[BOTH][seed]) for seed, run in seeds.items() if seed in runs.get(BOTH, {})]
        if not pairs:
            continue
        ends = [(one["first_at_target"], other["first_at_target"]) for one, other in pairs]
        reached = [(one["seconds"], other["seconds"]) for one, other in ends if one and other]
        told[arm] = {
            "seconds_of_both": summary([one["seconds"] / other["seconds"] for one, other in pairs]),
            "seconds_to_target_of_both": summary([a / b for a, b in reached]) if reached else None,
            "seeds_without_target": sum(not (one and other) for one, other in ends),
        }
    return told


def stages_table(runs: dict[str, dict[str, Any]]) -> str:
    """A line per run."""
    lines = [f"{'':<26}{'seed':>6}{'seconds':>9}{'to 99%':>9}{'exact %':>9}{'short/s':>9}{'whole/s':>9}"]
    for arm, seeds in runs.items():
        for seed, one in seeds.items():
            reached = one["first_at_target"]
            speeds = [one["passes"][kind].get("steps_per_second", {}).get("median") for kind in (ALONE, WHOLE)]
            shown = "".join(f"{'-' if speed is None else format(speed, '.2f'):>9}" for speed in speeds)
            to_target = "-" if reached is None else f"{reached['seconds']:.0f}"
            lines.append(
                f"{arm:<26}{seed:>6}{one['seconds']:>9.0f}{to_target:>9}{100 * one['exact_match']:>9.1f}{shown}"
            )
    return "\n".join(lines)


def draw(runs: dict[str, dict[str, Any]], path: Path) -> None:
    """Exact match on validation items against seconds of training, a line per run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="seconds of training", ylabel="exact match on validation items (%)")
    axes.set_ylim(-2, 102)
    axes.axhline(100 * TARGET, color="0.6", linestyle=":")
    for colour, (arm, seeds) in enumerate(runs.items()):
        for number, one in enumerate(seeds.values()):
            points = [p["seconds"] for p in one["checks"]], [100 * p["exact_match"] for p in one["checks"]]
            axes.plot(*points, f"C{colour}o-", markersize=3, label=None if number else arm.replace("_", " "))
    axes.set_title("The reading alone first, or both together: equal rows and steps, a line per seed")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="of the stages")
    parser.add_argument("--part", nargs="+", default=list(PARTS), choices=PARTS)
    stages = parser.add_argument_group("stages")
    stages.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    stages.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N")
    stages.add_argument("--steps", type=int, default=SETTINGS["tokens"].steps, help="(default: %(default)s)")
    stages.add_argument("--distinct-rows", type=int, default=SETTINGS["tokens"].distinct_rows, help="(%(default)s)")
    stages.add_argument("--every", type=int, default=40, help="steps from check to check (default: %(default)s)")
    stages.add_argument("--per-group", type=int, default=50, help="test items per subtask (default: %(default)s)")
    stages.add_argument("--validation", type=int, default=5, help="items per subtask at a check (%(default)s)")
    step = parser.add_argument_group("step")
    step.add_argument("--shapes", nargs="+", default=["tiny", "100m", "8b", "8b-4bit"], choices=list(SIZES))
    step.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    step.add_argument("--rows", type=int, help="rows of a step (default: as the shape has it)")
    step.add_argument("--length", type=int, help="tokens of a row (default: as the shape has it)")
    step.add_argument("--labels", type=int, default=0, help="labelled tokens of a row (default: those of the answer)")
    step.add_argument("--cpu-seconds", action="store_true", help="measure processor time, for a busy machine")
    step.add_argument("--warmup", type=int, default=1, help="steps that are not timed (default: %(default)s)")
    step.add_argument("--timed", type=int, default=4, help="steps that are, of a turn (default: %(default)s)")
    step.add_argument("--repetitions", type=int, default=5, help="turns of each method (default: %(default)s)")
    step.add_argument("--adamw", action="store_true", help="AdamW alone for IGC, as for LoRA (default: with Muon)")
    arguments = parser.parse_args(words)
    for name in ("steps", "every", "per_group", "validation", "warmup", "timed", "repetitions"):
        if getattr(arguments, name) < 1:
            parser.error(f"`--{name.replace('_', '-')} {getattr(arguments, name)}` is not at least 1.")
    return arguments


def write(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """What is there so far, so that an interrupted run leaves it."""
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def run_stages(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    """All arms with all seeds."""
    gate()
    runs: dict[str, dict[str, Any]] = {arm: {} for arm in arguments.arms}
    results["stages"] = {"target": TARGET, "runs": runs}
    for seed in arguments.seeds:
        for arm in arguments.arms:
            runs[arm][str(seed)] = run(arm, seed, arguments)
            results["stages"]["savings"] = savings(runs)
            write(results, arguments)
    print(stages_table(runs))
    if arguments.figure is not None:
        draw(runs, arguments.figure)


def run_steps(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    """All shapes that fit."""
    found: dict[str, Any] = {"left_out": {}, "shapes": {}}
    if arguments.cpu_seconds:
        step_times.clock = time.process_time
    results["step"] = found
    for name in arguments.shapes:
        reason = left_out(name)
        if reason is not None:
            found["left_out"][name] = reason
            print(f"{name} is left out: {reason}", flush=True)
            continue
        sizes = [given or usual for given, usual in zip((arguments.rows, arguments.length), SIZES[name], strict=True)]
        counts = (arguments.warmup, arguments.timed, arguments.repetitions)
        plan = Plan(name, *sizes, *counts, not arguments.adamw, arguments.labels)

        def keep(told: dict[str, Any], name: str = name) -> None:
            found["shapes"][name] = told
            write(results, arguments)

        try:
            measure(plan, arguments.methods, keep)
        except torch.OutOfMemoryError as error:
            found["left_out"][name] = f"out of memory: {error}"
            print(f"{name} is left out: {found['left_out'][name]}", flush=True)
            continue
        print(table(name, found["shapes"][name]), flush=True)
    write(results, arguments)


def main() -> None:
    """Runs the parts."""
    arguments = arguments_of()
    settings = {key: value for key, value in vars(arguments).items() if key not in ("output", "figure")}
    results = facts() | {"settings": settings}
    if "stages" in arguments.part:
        run_stages(arguments, results)
    if "step" in arguments.part:
        run_steps(arguments, results)
    print(json.dumps(results.get("stages", {}).get("savings", {}), indent=1))


if __name__ == "__main__":
    main()
