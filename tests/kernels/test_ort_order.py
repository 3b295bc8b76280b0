"""What is declared of ONNX Runtime's C interface stands where the published header has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ort_order import fields, recorded

from opbridge.kernels.compiler import INCLUDE

_ORT_API = INCLUDE / "opbridge" / "adapter" / "ort_api.h"
_DECLARING = [_ORT_API, INCLUDE.parent / "aten" / "ort.h", Path(__file__).with_name("server.h")]
_ENTRY = re.compile(r"constexpr (?:Checked|Unchecked|Entry)<[^;]*>\s+(\w+)\{(\d+)\};")


@pytest.mark.parametrize("header", _DECLARING, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_entries_of_the_table_have_their_slots(header: Path) -> None:
    text = header.read_text()
    entries = {name: int(slot) for name, slot in _ENTRY.findall(text)}
    assert len(entries) == len(re.findall(r"^constexpr (?:Checked|Unchecked|Entry)<", text, flags=re.MULTILINE)) > 0
    published = {name: slot for slot, name in enumerate(recorded()["OrtApi"])}
    assert entries == {name: published.get(name) for name in entries}


def test_a_custom_operator_has_the_published_fields() -> None:
    body = re.search(r"struct OrtCustomOp \{(.*?)\n\};", _ORT_API.read_text(), flags=re.DOTALL)
    assert body is not None
    declared = [pointer or plain for pointer, plain in re.findall(r"\(\*(\w+)\)\(|\buint32_t (\w+);", body[1])]
    room = re.search(r"void\* unused\[(\d+)\];", body[1])
    assert room is not None
    published = recorded()["OrtCustomOp"]
    assert declared == published[: len(declared)]
    assert len(published) <= len(declared) + int(room[1])


def test_a_header_is_read_in_order() -> None:
    header = """
/* struct OrtApi { nothing }; */
struct OrtApi {
  // void(ORT_API_CALL* Commented)(int);
  OrtStatus*(ORT_API_CALL* CreateStatus)(OrtErrorCode code, _In_ const char* msg)NO_EXCEPTION;
  /** \\brief One; two */
  ORT_API2_STATUS(CreateEnv, OrtLoggingLevel level,
                  _Outptr_ OrtEnv** out);
  ORT_CLASS_RELEASE(Env);
  ORT_API_T(const OrtModelEditorApi*, GetModelEditorApi);
  uint32_t version;
  void(ORT_API_CALL* Free)(struct OrtAllocator* this_, void* p);
};
"""
    assert fields(header, "OrtApi") == [
        "CreateStatus",
        "CreateEnv",
        "ReleaseEnv",
        "GetModelEditorApi",
        "version",
        "Free",
    ]
    with pytest.raises(ValueError, match="does not define OrtCustomOp"):
        fields(header, "OrtCustomOp")
