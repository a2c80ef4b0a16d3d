"""Which entries of the webhook configurations each role answers."""

from webhook.core.decisions import Endpoint
from webhook.core.judged import TABLE

OF_THE_RULES = frozenset(row.webhook for row in TABLE if row.endpoint in (Endpoint.MUTATE, Endpoint.VALIDATE))
