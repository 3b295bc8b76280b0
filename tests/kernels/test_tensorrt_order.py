"""What is declared of TensorRT's plug-in interface is what its published headers declare."""

from __future__ import annotations

import re

import pytest
from tensorrt_order import CLASSES, ENUMS, STRUCTURES, base, enumerators, fields, functions, kinds, recorded

from opbridge.kernels.compiler import INCLUDE

RELEASES = ("10.0", "10.15", "11.1")
_API = (INCLUDE / "opbridge" / "adapter" / "tensorrt_api.h").read_text()
_NAMESPACE = re.compile(r"namespace before_11 \{(.*?)\}  // namespace before_11", re.DOTALL)
_OF_TENSORRT = ("ILogger", "ILoggerFinder")


def declarations(release: str) -> str:
    """The declarations that hold for a release."""
    of_10 = _NAMESPACE.search(_API)
    assert of_10 is not None
    if release.startswith("10."):
        return of_10[1] + _NAMESPACE.sub("", _API)
    return _NAMESPACE.sub("", _API)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", CLASSES)
def test_virtual_functions_have_their_places(release: str, name: str) -> None:
    own = declarations(release)
    declared = [f"base {base(own, name)}".strip(), *kinds(own, name), *functions(own, name)]
    published = recorded(release)[f"class {name}"]
    # TensorRT's own objects say their kind themselves.
    own_kind = [each for each in published if each.startswith('"') and name in _OF_TENSORRT]
    assert declared == [each for each in published if each not in own_kind]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_have_the_published_fields(release: str, name: str) -> None:
    assert fields(declarations(release), name) == recorded(release)[f"struct {name}"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ENUMS)
def test_numbers_are_the_published_ones(release: str, name: str) -> None:
    published = dict(line.split() for line in recorded(release)[f"enum {name}"])
    declared = enumerators(_API, name)
    assert declared == {each: int(published[each]) for each in declared}
    assert declared


def test_a_header_is_read_in_order() -> None:
    header = """
//! class IPlugin { nothing };
class IPlugin : public IVersionedInterface
{
public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return InterfaceInfo{"PLUGIN", 1, 0};
    }
    //! virtual int32_t commented() = 0;
    virtual int32_t enqueue(PluginTensorDesc const* in, void const* const* inputs, size_t const count,
        const DataType* types) const noexcept = 0;
    virtual ~IPlugin() noexcept = default;
};
class Dims
{
public:
    static constexpr int32_t MAX_DIMS{8};
    //! The rank.
    int32_t nbDims;
    int64_t d[MAX_DIMS];
    AsciiChar const* name{};
    Dims(int32_t rank = 0) noexcept
        : nbDims(rank)
        , name(nullptr)
    {
    }
};
"""
    assert functions(header, "IPlugin") == [
        "int32_t enqueue(PluginTensorDesc const*, void const*const*, size_t, DataType const*) const",
    ]
    assert functions(header.replace(" : public IVersionedInterface", ""), "IPlugin")[1:] == ["~IPlugin()"]
    assert base(header, "IPlugin") == "IVersionedInterface"
    assert kinds(header, "IPlugin") == ['"PLUGIN", 1, 0']
    assert fields(header, "Dims") == ["int32_t nbDims", "int64_t d[MAX_DIMS]", "char const* name"]
    with pytest.raises(ValueError, match="do not define IOther"):
        functions(header, "IOther")
