// What opbridge uses of ONNX Runtime's C interface: a table of functions that only ever grows at its end, so that an entry's place in it
// never changes.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct OrtApi;
struct OrtStatus;
struct OrtValue;
struct OrtAllocator;
struct OrtMemoryInfo;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtSessionOptions;
struct OrtCustomOpDomain;
struct OrtTensorTypeAndShapeInfo;
struct OrtShapeInferContext;
struct OrtOpAttr;

struct OrtApiBase {
    const OrtApi* (*GetApi)(uint32_t version);
    const char* (*GetVersionString)();
};

// The fields in ONNX Runtime's order; version 17 is the oldest that has them all.
struct OrtCustomOp {
    uint32_t version;
    void* (*CreateKernel)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*);
    const char* (*GetName)(const OrtCustomOp*);
    const char* (*GetExecutionProviderType)(const OrtCustomOp*);
    int32_t (*GetInputType)(const OrtCustomOp*, size_t);
    size_t (*GetInputTypeCount)(const OrtCustomOp*);
    int32_t (*GetOutputType)(const OrtCustomOp*, size_t);
    size_t (*GetOutputTypeCount)(const OrtCustomOp*);
    void (*KernelCompute)(void*, OrtKernelContext*);
    void (*KernelDestroy)(void*);
    int32_t (*GetInputCharacteristic)(const OrtCustomOp*, size_t);
    int32_t (*GetOutputCharacteristic)(const OrtCustomOp*, size_t);
    int32_t (*GetInputMemoryType)(const OrtCustomOp*, size_t);
    int (*GetVariadicInputMinArity)(const OrtCustomOp*);
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
    OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void**);
    OrtStatus* (*KernelComputeV2)(void*, OrtKernelContext*);
    OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*);
    int (*GetStartVersion)(const OrtCustomOp*);
    int (*GetEndVersion)(const OrtCustomOp*);
    void* unused[8];
};
}

namespace opbridge {
namespace ort {

constexpr uint32_t version = 17;

enum Failure : int32_t { failed = 1, invalid_argument = 2 };
enum Presence : int32_t { required = 0, optional = 1, variadic = 2 };
enum AttributeType : int32_t { attribute_int = 1, attribute_ints = 2, attribute_float = 3, attribute_floats = 4, attribute_string = 5 };

// An entry of the table: its place, and its type.
template <class Function>
struct Entry {
    size_t place;
};

template <class... P>
using Checked = Entry<OrtStatus*(P...)>;
template <class... P>
using Unchecked = Entry<void(P...)>;

constexpr Checked<const OrtValue*, void**> GetTensorMutableData{51};
constexpr Checked<OrtTensorTypeAndShapeInfo**> CreateTensorTypeAndShapeInfo{57};
constexpr Checked<OrtTensorTypeAndShapeInfo*, int32_t> SetTensorElementType{58};
constexpr Checked<OrtTensorTypeAndShapeInfo*, const int64_t*, size_t> SetDimensions{59};
constexpr Checked<const OrtTensorTypeAndShapeInfo*, int32_t*> GetTensorElementType{60};
constexpr Checked<const OrtTensorTypeAndShapeInfo*, size_t*> GetDimensionsCount{61};
constexpr Checked<const OrtTensorTypeAndShapeInfo*, int64_t*, size_t> GetDimensions{62};
constexpr Checked<const OrtTensorTypeAndShapeInfo*, const char**, size_t> GetSymbolicDimensions{63};
constexpr Checked<const OrtTensorTypeAndShapeInfo*, size_t*> GetTensorShapeElementCount{64};
constexpr Checked<const OrtValue*, OrtTensorTypeAndShapeInfo**> GetTensorTypeAndShape{65};
constexpr Checked<const char*, int32_t, int32_t, int32_t, OrtMemoryInfo**> CreateMemoryInfo{68};
constexpr Checked<int32_t, int32_t, OrtMemoryInfo**> CreateCpuMemoryInfo{69};
constexpr Checked<const OrtMemoryInfo*, int32_t*> MemoryInfoGetId{72};
constexpr Checked<OrtAllocator*, size_t, void**> AllocatorAlloc{75};
constexpr Checked<OrtAllocator*, void*> AllocatorFree{76};
constexpr Checked<OrtAllocator**> GetAllocatorWithDefaultOptions{78};
constexpr Checked<const char*, OrtCustomOpDomain**> CreateCustomOpDomain{26};
constexpr Checked<OrtCustomOpDomain*, const OrtCustomOp*> CustomOpDomain_Add{27};
constexpr Checked<OrtSessionOptions*, OrtCustomOpDomain*> AddCustomOpDomain{28};
constexpr Checked<const OrtKernelInfo*, const char*, float*> KernelInfoGetAttribute_float{85};
constexpr Checked<const OrtKernelInfo*, const char*, int64_t*> KernelInfoGetAttribute_int64{86};
constexpr Checked<const OrtKernelInfo*, const char*, char*, size_t*> KernelInfoGetAttribute_string{87};
constexpr Checked<const OrtKernelContext*, size_t*> KernelContext_GetInputCount{88};
constexpr Checked<const OrtKernelContext*, size_t*> KernelContext_GetOutputCount{89};
constexpr Checked<const OrtKernelContext*, size_t, const OrtValue**> KernelContext_GetInput{90};
constexpr Checked<OrtKernelContext*, size_t, const int64_t*, size_t, OrtValue**> KernelContext_GetOutput{91};
constexpr Checked<char***, int32_t*> GetAvailableProviders{125};
constexpr Checked<char**, int32_t> ReleaseAvailableProviders{126};
constexpr Checked<const OrtKernelInfo*, const char*, float*, size_t*> KernelInfoGetAttributeArray_float{162};
constexpr Checked<const OrtKernelInfo*, const char*, int64_t*, size_t*> KernelInfoGetAttributeArray_int64{163};
constexpr Checked<const OrtKernelContext*, void**> KernelContext_GetGPUComputeStream{193};
constexpr Checked<const OrtValue*, const OrtMemoryInfo**> GetTensorMemoryInfo{194};
constexpr Checked<const OrtKernelInfo*, const char*, OrtAllocator*, OrtValue**> KernelInfoGetAttribute_tensor{236};
constexpr Checked<const OrtKernelContext*, const OrtMemoryInfo*, OrtAllocator**> KernelContext_GetAllocator{253};
constexpr Checked<const OrtShapeInferContext*, size_t*> ShapeInferContext_GetInputCount{267};
constexpr Checked<const OrtShapeInferContext*, size_t, OrtTensorTypeAndShapeInfo**> ShapeInferContext_GetInputTypeShape{268};
constexpr Checked<const OrtShapeInferContext*, const char*, const OrtOpAttr**> ShapeInferContext_GetAttribute{269};
constexpr Checked<const OrtShapeInferContext*, size_t, const OrtTensorTypeAndShapeInfo*> ShapeInferContext_SetOutputTypeShape{270};
constexpr Checked<OrtTensorTypeAndShapeInfo*, const char**, size_t> SetSymbolicDimensions{271};
constexpr Checked<const OrtOpAttr*, int32_t, void*, size_t, size_t*> ReadOpAttr{272};
constexpr Checked<const OrtKernelContext*, void (*)(void*, size_t), size_t, size_t, void*> KernelContext_ParallelFor{274};
constexpr Checked<const OrtValue*, int32_t*, const int64_t**, size_t*> GetTensorElementTypeAndShapeDataReference{414};
constexpr long shape_reference_since = 24;  // the last one is there since version 1.24
constexpr Unchecked<OrtStatus*> ReleaseStatus{93};
constexpr Unchecked<OrtMemoryInfo*> ReleaseMemoryInfo{94};
constexpr Unchecked<OrtValue*> ReleaseValue{96};
constexpr Unchecked<OrtTensorTypeAndShapeInfo*> ReleaseTensorTypeAndShapeInfo{99};
constexpr Unchecked<OrtAllocator*> ReleaseAllocator{132};
constexpr Entry<OrtStatus*(int32_t, const char*)> CreateStatus{0};
constexpr Entry<const char*(const OrtStatus*)> GetErrorMessage{2};

template <class Function>
Function* function(const OrtApi* api, Entry<Function> entry) {
    return reinterpret_cast<Function*>(reinterpret_cast<void* const*>(api)[entry.place]);
}

}  // namespace ort
}  // namespace opbridge
