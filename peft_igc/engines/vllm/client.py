"""What a client of the server sees: `GET /igc/steps`, and the counters for Prometheus at `GET /igc/metrics`.

The server loads the routes if `VLLM_PLUGINS=igc` is set, as vLLM (0.32) wants it of all routes. They ask the workers
by `collective_rpc`, which vLLM offers for that. They answer 503 where the engine runs without a calculator, and 404
without the plugin, so that either can be asked whether the server is ready. Try it: `make test-vllm`
"""

from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse


class Routes:
    """The routes, as vLLM's `EndpointPlugin`."""

    name = "igc"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        """Adds the routes."""

        @app.get("/igc/steps")
        async def steps(request: Request, last: int = 100, id: str = "") -> Any:
            return await _report(request, last, id)

        @app.get("/igc/metrics")
        async def metrics(request: Request) -> PlainTextResponse:
            return PlainTextResponse(as_prometheus(await _report(request, 0)))

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Keeps the client by which the workers are asked; from the first report on they name the requests."""
        state.igc_engine = engine_client
        await engine_client.collective_rpc("igc_report", args=(0,))


async def _report(request: Request, last: int, of: str = "") -> dict[str, Any]:
    """The report of one worker: those of one engine are alike."""
    reports = await request.app.state.igc_engine.collective_rpc("igc_report", args=(last, of))
    if not reports[0]:
        raise HTTPException(503, "The engine runs without a calculator: `additional_config` names no adapter.")
    return reports[0]


def as_prometheus(report: dict[str, Any]) -> str:
    """A report in Prometheus' text format."""
    lines = ["# HELP igc_steps_total Steps of the calculator.", "# TYPE igc_steps_total counter"]
    for status, count in sorted(report["steps_by_status"].items()):
        lines.append(f'igc_steps_total{{status="{status}"}} {count}')
    lines += ["# HELP igc_seconds_total Host time at the calculator's layer.", "# TYPE igc_seconds_total counter"]
    lines.append(f"igc_seconds_total {report['seconds']:.6f}")
    return "\n".join(lines) + "\n"
