// TensorRT's plug-in interface, as far as opbridge uses it: what a library of plug-ins implements, and what it is given. The binary
// interface is fixed since TensorRT 10.0; a virtual function's place counts, its class's name does not.
// tests/kernels/test_tensorrt_order.py compares names, parameters, orders and numbers with those of the published headers
// (NvInferRuntimeBase.h, NvInferPluginBase.h, NvInferRuntimePlugin.h, NvInferRuntime.h, NvInferImpl.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "../platform.h"

struct CUstream_st;

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

using cudaStream_t = CUstream_st*;

enum class DataType : int32_t {
    kFLOAT = 0,
    kHALF = 1,
    kINT8 = 2,
    kINT32 = 3,
    kBOOL = 4,
    kUINT8 = 5,
    kFP8 = 6,
    kBF16 = 7,
    kINT64 = 8,
};

enum class TensorFormat : int32_t {
    kLINEAR = 0,  // row-major, the only one of ours
};

enum class PluginFieldType : int32_t {
    kFLOAT16 = 0,
    kFLOAT32 = 1,
    kFLOAT64 = 2,
    kINT8 = 3,
    kINT16 = 4,
    kINT32 = 5,
    kCHAR = 6,
    kDIMS = 7,
    kUNKNOWN = 8,
    kBF16 = 9,
    kINT64 = 10,
};

enum class TensorRTPhase : int32_t { kBUILD = 0, kRUNTIME = 1 };

enum class PluginCapabilityType : int32_t { kCORE = 0, kBUILD = 1, kRUNTIME = 2 };

enum class DimensionOperation : int32_t {
    kSUM = 0,
    kPROD = 1,
    kMAX = 2,
    kMIN = 3,
    kSUB = 4,
    kEQUAL = 5,
    kLESS = 6,
    kFLOOR_DIV = 7,
    kCEIL_DIV = 8,
};

enum class APILanguage : int32_t { kCPP = 0, kPYTHON = 1 };

enum class Severity : int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };

struct Dims64 {
    static constexpr int32_t MAX_DIMS = 8;
    int32_t nbDims;
    int64_t d[MAX_DIMS];
};
using Dims = Dims64;

struct PluginTensorDesc {
    Dims dims;
    DataType type;
    TensorFormat format;
    float scale;
};

struct DynamicPluginTensorDesc {
    PluginTensorDesc desc;
    Dims min;
    Dims max;
    Dims opt;
};

struct PluginField {
    const char* name;
    const void* data;
    PluginFieldType type;
    int32_t length;
};

struct PluginFieldCollection {
    int32_t nbFields;
    const PluginField* fields;
};

struct InterfaceInfo {
    const char* kind;
    int32_t major;
    int32_t minor;
};

// The base of what either side implements for the other.
class IVersionedInterface {
  public:
    virtual APILanguage getAPILanguage() const noexcept { return APILanguage::kCPP; }
    virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;
    virtual ~IVersionedInterface() noexcept = default;
};

class ILogger : public IVersionedInterface {
  public:
    virtual void log(Severity severity, const char* msg) noexcept = 0;
};

class ILoggerFinder : public IVersionedInterface {
  public:
    virtual ILogger* findLogger() = 0;
};

// The same before TensorRT 11.
namespace before_11 {

class ILogger {
  public:
    virtual void log(Severity severity, const char* msg) noexcept = 0;
    virtual ~ILogger() = default;
};

class ILoggerFinder {
  public:
    virtual ILogger* findLogger() = 0;
    virtual ~ILoggerFinder() = default;
};

}  // namespace before_11

// Sizes as expressions. What is called stands behind the objects that a plug-in is given.

class VRoot {
  public:
    virtual ~VRoot() noexcept = default;
};

class VDimensionExpr : public VRoot {
  public:
    virtual bool isConstant() const = 0;
    virtual int64_t getConstantValue() const = 0;
    virtual bool isSizeTensor() const = 0;
};

class INoCopy {
  protected:
    INoCopy() = default;
    virtual ~INoCopy() = default;
};

class IDimensionExpr : public INoCopy {
  public:
    bool isConstant() const { return mImpl->isConstant(); }
    int64_t getConstantValue() const { return mImpl->getConstantValue(); }

  protected:
    VDimensionExpr* mImpl = nullptr;
};

class VExprBuilder : public VRoot {
  public:
    virtual const IDimensionExpr* constant(int64_t value) = 0;
    virtual const IDimensionExpr* operation(DimensionOperation op, const IDimensionExpr& first, const IDimensionExpr& second) = 0;
    virtual const IDimensionExpr* declareSizeTensor(int32_t outputIndex, const IDimensionExpr& opt, const IDimensionExpr& upper) = 0;
};

class IExprBuilder : public INoCopy {
  public:
    const IDimensionExpr* constant(int64_t value) { return mImpl->constant(value); }
    const IDimensionExpr* operation(DimensionOperation op, const IDimensionExpr& first, const IDimensionExpr& second) {
        return mImpl->operation(op, first, second);
    }

  protected:
    VExprBuilder* mImpl = nullptr;
};

struct DimsExprs {
    int32_t nbDims;
    const IDimensionExpr* d[Dims::MAX_DIMS];
};

// What a plug-in implements.

class IPluginResourceContext;

class IPluginCapability : public IVersionedInterface {};

class IPluginV3 : public IVersionedInterface {
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN", 1, 0}; }
    virtual IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept = 0;
    virtual IPluginV3* clone() noexcept = 0;
};

class IPluginV3OneCore : public IPluginCapability {
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_CORE", 1, 0}; }
    virtual const char* getPluginName() const noexcept = 0;
    virtual const char* getPluginVersion() const noexcept = 0;
    virtual const char* getPluginNamespace() const noexcept = 0;
};

class IPluginV3OneBuild : public IPluginCapability {
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_BUILD", 1, 0}; }
    virtual int32_t configurePlugin(const DynamicPluginTensorDesc* in, int32_t nbInputs, const DynamicPluginTensorDesc* out,
                                    int32_t nbOutputs) noexcept = 0;
    virtual int32_t getOutputDataTypes(DataType* outputTypes, int32_t nbOutputs, const DataType* inputTypes,
                                       int32_t nbInputs) const noexcept = 0;
    virtual int32_t getOutputShapes(const DimsExprs* inputs, int32_t nbInputs, const DimsExprs* shapeInputs, int32_t nbShapeInputs,
                                    DimsExprs* outputs, int32_t nbOutputs, IExprBuilder& exprBuilder) noexcept = 0;
    virtual bool supportsFormatCombination(int32_t pos, const DynamicPluginTensorDesc* inOut, int32_t nbInputs,
                                           int32_t nbOutputs) noexcept = 0;
    virtual int32_t getNbOutputs() const noexcept = 0;
    virtual size_t getWorkspaceSize(const DynamicPluginTensorDesc*, int32_t, const DynamicPluginTensorDesc*, int32_t) const noexcept {
        return 0;
    }
    virtual int32_t getValidTactics(int32_t*, int32_t) noexcept { return 0; }
    virtual int32_t getNbTactics() noexcept { return 0; }
    virtual const char* getTimingCacheID() noexcept { return nullptr; }
    virtual int32_t getFormatCombinationLimit() noexcept { return 100; }
    virtual const char* getMetadataString() noexcept { return nullptr; }
};

class IPluginV3OneRuntime : public IPluginCapability {
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN_V3ONE_RUNTIME", 1, 0}; }
    virtual int32_t setTactic(int32_t) noexcept { return 0; }
    virtual int32_t onShapeChange(const PluginTensorDesc* in, int32_t nbInputs, const PluginTensorDesc* out,
                                  int32_t nbOutputs) noexcept = 0;
    virtual int32_t enqueue(const PluginTensorDesc* inputDesc, const PluginTensorDesc* outputDesc, const void* const* inputs,
                            void* const* outputs, void* workspace, cudaStream_t stream) noexcept = 0;
    virtual IPluginV3* attachToContext(IPluginResourceContext* context) noexcept = 0;
    virtual const PluginFieldCollection* getFieldsToSerialize() noexcept = 0;
};

class IPluginCreatorInterface : public IVersionedInterface {};

class IPluginCreatorV3One : public IPluginCreatorInterface {
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"PLUGIN CREATOR_V3ONE", 1, 0}; }
    virtual IPluginV3* createPlugin(const char* name, const PluginFieldCollection* fc, TensorRTPhase phase) noexcept = 0;
    virtual const PluginFieldCollection* getFieldNames() noexcept = 0;
    virtual const char* getPluginName() const noexcept = 0;
    virtual const char* getPluginVersion() const noexcept = 0;
    virtual const char* getPluginNamespace() const noexcept = 0;
};

}  // namespace tensorrt
}  // namespace opbridge
