"""The durable memory of an AI assistant, kept as Dagster data assets over LanceDB and DuckDB.

Every face and every Dagster code location imports this module before any of the libraries below, so it is here that they are told
to report nothing to their makers, and nothing to a person that is no sentence for one. What is set in the environment stands.
"""

import os

_SILENCES = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime: events queued in ~/.cache/Microsoft and sent to mobile.events.data.microsoft.com
    "DAGSTER_DISABLE_TELEMETRY": "1",  # Dagster: the thread that uploads what an instance has logged about its use
    "LANCEDB_LOG": "error",  # LanceDB: warnings on stderr about what is mended and said by this project
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub, on which tokenizers depends
}
for _name, _value in _SILENCES.items():
    os.environ.setdefault(_name, _value)
