"""The durable memory of an AI assistant, kept as Dagster data assets over LanceDB and DuckDB.

Every entry point and Dagster code location imports this module before the libraries below, so it turns off their telemetry and
their warnings here. Variables that the environment already sets are kept.
"""

import os

_SILENCES = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime: events queued in ~/.cache/Microsoft and sent to mobile.events.data.microsoft.com
    "DAGSTER_DISABLE_TELEMETRY": "1",  # Dagster: the thread that uploads an instance's usage log
    "LANCEDB_LOG": "error",  # LanceDB: warnings on stderr about faults that this project repairs and reports itself
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub, on which tokenizers depends
}
for _name, _value in _SILENCES.items():
    os.environ.setdefault(_name, _value)
