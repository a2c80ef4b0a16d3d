"""The application on the admission port: the admission calls, and Flask for everything else."""

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from webhook.core.decisions import Endpoint
from webhook.edge.admission import AdmissionDoor
from webhook.service.services import Services


def create_app(services: Services) -> Flask:
    """Return the application that answers by ``services``; nothing is started and nothing global is touched.

    ``services.corridor`` decides; a test passes doors of its own, a judge that raises, for example.
    """
    app = Flask(__name__, static_folder=None)

    @app.errorhandler(HTTPException)
    def plain(error: HTTPException) -> Response:
        """Answer every HTTP error as one plain sentence."""
        code = error.code or 500
        services.meters.bad_call("other", str(code))
        sentence = _not_found(services) if code == 404 else f"{error.name}."
        return Response(sentence + "\n", status=code, headers=dict(_allowed(error)), mimetype="text/plain")

    @app.errorhandler(Exception)
    def fault(error: Exception) -> Response:
        """Answer a fault of ours; only pages are answered here, no reviews."""
        services.fault(error)
        return Response("The request met an internal fault.\n", status=500, mimetype="text/plain")

    app.wsgi_app = AdmissionDoor(services.corridor, app.wsgi_app)  # type: ignore[method-assign]  # Flask's own pattern
    return app


def _not_found(services: Services) -> str:
    served = ", ".join(f"/{endpoint.value}" for endpoint in Endpoint if endpoint in services.corridor.doors)
    return f"Nothing is served under this path; admission reviews are sent by POST to {served}."


def _allowed(error: HTTPException) -> list[tuple[str, str]]:
    return [(name, value) for name, value in error.get_headers() if name == "Allow"]
