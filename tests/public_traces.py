"""The public traces that some tests read. They are no part of the project; who has a fresh clone may not have them.

SEATRIAL_DATA is set    a trace that is in none of its folders fails the test
it is not               a trace that is not in ../shared/data skips the test, and the end of the run says why
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from scenarios import library
from scenarios.read import Document, read_document, read_text

CODE, CONV, MOONCAKE = "azure_llm_2023_code.csv", "azure_llm_2023_conv.csv", "mooncake_conversation.jsonl"
SOURCES = {
    CODE: "data/AzureLLMInferenceTrace_code.csv of github.com/Azure/AzurePublicDataset",
    CONV: "data/AzureLLMInferenceTrace_conv.csv of github.com/Azure/AzurePublicDataset",
    MOONCAKE: "FAST25-release/traces/conversation_trace.jsonl of github.com/kvcache-ai/Mooncake",
}
DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def public_traces() -> "PublicTraces":
    """Those that this machine has."""
    return PublicTraces.of(os.environ)


@dataclass(frozen=True)
class PublicTraces:
    """Where they are looked for. `required`: somebody said where they are, so one that is missing is an error."""

    folders: tuple[Path, ...]
    required: bool

    @classmethod
    def of(cls, environ: Mapping[str, str], default: Path = DEFAULT) -> "PublicTraces":
        named = environ.get("SEATRIAL_DATA", "")
        if not named:
            return cls((default,), required=False)
        return cls(tuple(Path(each).expanduser() for each in named.split(":") if each), required=True)

    def file(self, name: str) -> Path:
        """The trace; without it the test that asks ends here."""
        found = [folder / name for folder in self.folders if (folder / name).is_file()]
        if not found:
            self._end_test(name)
        return found[0]

    def scenario(self, name: str) -> Document:
        """The library scenario, read with the traces that it names."""
        for load in read_text(library.find(name).read_text(encoding="utf-8")).scenario.load:
            if load.trace is not None:
                self.file(load.trace.file)
        return read_document(library.find(name), environ={"SEATRIAL_DATA": ":".join(map(str, self.folders))})

    def _end_test(self, name: str) -> NoReturn:
        looked = " and ".join(map(str, self.folders)) or "no folder"
        cure = f"put {SOURCES[name]} there under this name, or set SEATRIAL_DATA to its folder"
        reason = f"no trace {name} in {looked}: {cure}"
        if self.required:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
