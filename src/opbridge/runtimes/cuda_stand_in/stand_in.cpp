// CUDA's libraries as far as ONNX Runtime asks them while it loads a model: devices whose memory is this process's.
//
// With them in the place of CUDA's own, onnxruntime-gpu loads models on a machine without a GPU and says where each node
// would run. Nothing is computed: what launches a kernel does nothing. The file that is compiled includes this one, and
// defines FUNCTION(name) for all other functions that the libraries of onnxruntime-gpu take, which say that all went well.

#include <cstddef>
#include <cstdlib>
#include <cstring>

#ifndef OPBRIDGE_CUDA_VERSION
#define OPBRIDGE_CUDA_VERSION 13000
#endif
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kMemory = size_t(1) << 36;
constexpr int kVersion = OPBRIDGE_CUDA_VERSION;
constexpr int kDevices = 2;

int current_device = 0;

int allocate(void** pointer, size_t size) {
    constexpr size_t alignment = 512;
    *pointer = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
    return *pointer ? 0 : 2;  // cudaErrorMemoryAllocation
}

}  // namespace

// The driver.
EXPORTED int cuInit(unsigned) { return 0; }
EXPORTED int cuDriverGetVersion(int* version) { return *version = kVersion, 0; }
EXPORTED int cuDeviceGetCount(int* count) { return *count = kDevices, 0; }

// The runtime: devices.
EXPORTED int cudaGetDeviceCount(int* count) { return *count = kDevices, 0; }
EXPORTED int cudaSetDevice(int device) { return current_device = device, 0; }
EXPORTED int cudaGetDevice(int* device) { return *device = current_device, 0; }
EXPORTED int cudaRuntimeGetVersion(int* version) { return *version = kVersion, 0; }
EXPORTED int cudaDriverGetVersion(int* version) { return *version = kVersion, 0; }
EXPORTED int cudaDeviceGetAttribute(int* value, int attribute, int) {
    constexpr int major = 75, minor = 76;  // of the compute capability, here 8.0
    return *value = attribute == major ? 8 : attribute == minor ? 0 : 64, 0;
}
EXPORTED int cudaGetDeviceProperties(char* properties, int) {
    // The first fields of cudaDeviceProp in CUDA 12 and 13. All of it has more than 900 bytes.
    constexpr size_t total_memory = 288, shared_memory = 296, registers = 304, warp = 308, threads = 320, major = 360;
    std::memset(properties, 0, 900);
    std::strcpy(properties, "none");
    const size_t memory = kMemory, shared = 49152;
    const int count = 65536, size = 32, most = 1024, capability = 8;
    std::memcpy(properties + total_memory, &memory, sizeof memory);
    std::memcpy(properties + shared_memory, &shared, sizeof shared);
    std::memcpy(properties + registers, &count, sizeof count);
    std::memcpy(properties + warp, &size, sizeof size);
    std::memcpy(properties + threads, &most, sizeof most);
    std::memcpy(properties + major, &capability, sizeof capability);
    return 0;
}
EXPORTED int cudaGetDeviceProperties_v2(char* properties, int device) { return cudaGetDeviceProperties(properties, device); }
// The runtime: streams and events, which are numbers.
namespace {
int number(void** handle) {
    static size_t last = 0;
    return *handle = reinterpret_cast<void*>(++last << 4), 0;
}
}  // namespace
EXPORTED int cudaStreamCreateWithPriority(void** stream, unsigned, int) { return number(stream); }
EXPORTED int cudaEventCreateWithFlags(void** event, unsigned) { return number(event); }
EXPORTED int cudaStreamIsCapturing(void*, int* status) { return *status = 0, 0; }
EXPORTED int cudaStreamGetCaptureInfo(void*, int* status, ...) { return *status = 0, 0; }
EXPORTED int cudaGetDriverEntryPointByVersion(const char*, void** entry, unsigned, unsigned long long, int* status) {
    if (status) *status = 1;  // cudaDriverEntryPointSymbolNotFound
    return *entry = nullptr, 0;
}
EXPORTED const char* cudaGetErrorString(int) { return "no error"; }
EXPORTED const char* cudaGetErrorName(int) { return "cudaSuccess"; }

// The runtime: memory.
EXPORTED int cudaMalloc(void** pointer, size_t size) { return allocate(pointer, size); }
EXPORTED int cudaMallocAsync(void** pointer, size_t size, void*) { return allocate(pointer, size); }
EXPORTED int cudaMallocFromPoolAsync(void** pointer, size_t size, void*, void*) { return allocate(pointer, size); }
EXPORTED int cudaMallocHost(void** pointer, size_t size) { return allocate(pointer, size); }
EXPORTED int cudaHostAlloc(void** pointer, size_t size, unsigned) { return allocate(pointer, size); }
EXPORTED int cudaFree(void* pointer) { return std::free(pointer), 0; }
EXPORTED int cudaFreeAsync(void* pointer, void*) { return std::free(pointer), 0; }
EXPORTED int cudaFreeHost(void* pointer) { return std::free(pointer), 0; }
EXPORTED int cudaMemGetInfo(size_t* free, size_t* total) { return *free = *total = kMemory, 0; }
EXPORTED int cudaMemcpy(void* into, const void* from, size_t size, int) { return std::memmove(into, from, size), 0; }
EXPORTED int cudaMemcpyAsync(void* into, const void* from, size_t size, int, void*) { return std::memmove(into, from, size), 0; }
EXPORTED int cudaMemset(void* into, int value, size_t size) { return std::memset(into, value, size), 0; }
EXPORTED int cudaMemsetAsync(void* into, int value, size_t size, void*) { return std::memset(into, value, size), 0; }
EXPORTED int cudaPointerGetAttributes(void* attributes, const void*) { return std::memset(attributes, 0, 32), 0; }

#define FUNCTION(name) \
    EXPORTED int name() { return 0; }
