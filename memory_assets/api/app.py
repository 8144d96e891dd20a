"""The service as one ASGI application."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hmac import compare_digest
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from memory_assets.api import errors, models
from memory_assets.api.access import RateLimit, is_loopback
from memory_assets.api.metrics import Metrics
from memory_assets.api.middleware import BodyLimit, HostCheck, RequestRecord
from memory_assets.api.pool import TenantPool
from memory_assets.api.routes import router
from memory_assets.operations.health import disk_fault

if TYPE_CHECKING:
    from memory_assets.settings import Settings

_DESCRIPTION = """Stores, finds and relates what an AI assistant remembers.

Every route of a tenant needs one of its keys in the header `X-API-Key`. Every answer has an `X-Request-ID`, and every error is
`{"error", "request_id"}`."""


def create_app(settings: "Settings") -> FastAPI:
    """The service over the data folder of `settings`; nothing is opened before the first request."""
    app = FastAPIOffline(
        title="Memory",
        description=_DESCRIPTION,
        version=version("memory_assets"),
        lifespan=_lifespan,
        redoc_url=None,
        static_url="/docs/static",
        swagger_ui_parameters={"validatorUrl": None},
        redirect_slashes=False,
        telemetry={"auto_configure": False, "tracing": False, "metrics": False, "logs": False},
    )
    app.state.settings = settings
    app.state.metrics = Metrics()
    app.state.pool = TenantPool(settings, app.state.metrics)
    app.state.rate_limit = RateLimit(settings.rate_limit)
    errors.install(app)
    app.add_middleware(BodyLimit, most_bytes=settings.max_body_bytes, seconds=settings.request_timeout)
    app.add_middleware(HostCheck, names={settings.host, *settings.allowed_hosts})
    app.add_middleware(RequestRecord, metrics=app.state.metrics)
    app.add_api_route("/api/v1/health", _health, response_model=models.ServiceHealth, responses=_UNHEALTHY, name="health")
    app.add_api_route("/metrics", _metrics, include_in_schema=False)
    app.include_router(router)
    _describe_as_served(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    upkeep = asyncio.create_task(app.state.pool.keep_up())
    yield
    await app.state.pool.close(upkeep)


_UNHEALTHY: dict[int | str, dict[str, Any]] = {
    HTTPStatus.SERVICE_UNAVAILABLE.value: {"model": models.ErrorOut, "description": "The service cannot work."}
}


async def _health(request: Request) -> models.ServiceHealth:
    """Whether the service works, told to anybody and with nothing about any tenant."""
    folder = request.app.state.settings.data_dir
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "store: the data folder cannot be read and written.")
    if fault := await asyncio.to_thread(disk_fault, folder):
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, f"store: {fault}")
    if fault := await request.app.state.pool.embedder_fault():
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, f"embedding: {fault}.")
    return models.ServiceHealth(status="healthy", version=request.app.version)


async def _metrics(request: Request) -> Response:
    token, local = request.app.state.settings.metrics_token, request.scope.get("server")
    if token is None:
        if not local or not is_loopback(local[0]):
            raise HTTPException(HTTPStatus.NOT_FOUND, "Not Found")
    elif not compare_digest(f"Bearer {token.get_secret_value()}".encode(), request.headers.get("Authorization", "").encode()):
        raise HTTPException(HTTPStatus.UNAUTHORIZED, "Unauthorized: send the metrics token as a bearer token.")
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.exposition(), media_type=metrics.content_type)


def _describe_as_served(app: FastAPI) -> None:
    """Take FastAPI's 422 out of the schema, because what is not valid is answered with 400 here."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        fresh = app.openapi_schema is None
        schema = describe()
        if fresh:
            for path in schema["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            for name in ("HTTPValidationError", "ValidationError"):
                schema["components"]["schemas"].pop(name, None)
        return schema

    app.openapi = openapi
