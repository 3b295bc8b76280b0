// A library of custom operators that registers the kernels for CUDA of another one, FAKE_ORT_KERNELS, as kernels for the CPU.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <opbridge/adapter/ort_calls.h>

using namespace opbridge::ort;

namespace {

OrtStatus* providers(char*** names, int32_t* count) {
    static char cuda[] = "CUDAExecutionProvider";
    static char* all[] = {cuda};
    *names = all;
    *count = 1;
    return nullptr;
}
OrtStatus* release_providers(char**, int32_t) { return nullptr; }

// ONNX Runtime's table, with the CUDA execution provider among those that it has.
const OrtApi* with_cuda(const OrtApi* api) {
    static auto* table = new std::vector<void*>;
    const auto* entries = reinterpret_cast<void* const*>(api);
    table->assign(entries, entries + GetTensorElementTypeAndShapeDataReference.place + 1);
    (*table)[GetAvailableProviders.place] = reinterpret_cast<void*>(&providers);
    (*table)[ReleaseAvailableProviders.place] = reinterpret_cast<void*>(&release_providers);
    return reinterpret_cast<const OrtApi*>(table->data());
}

struct Registered {
    const OrtApi* api;
    OrtCustomOpDomain* domain;
    int count;
};

void add(void* data, const char* name, const OrtCustomOp* op) {
    Registered& to = *static_cast<Registered*>(data);
    static auto* taken = new std::vector<const OrtCustomOp*>;
    const char* provider = op->GetExecutionProviderType(op);
    const bool is_taken = std::find(taken->begin(), taken->end(), op) != taken->end();
    if (!is_taken && (!provider || std::strcmp(provider, "CUDAExecutionProvider") != 0)) return;
    taken->push_back(op);
    auto* own = const_cast<OrtCustomOp*>(op);
    own->GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    if (!to.domain) call(to.api, CreateCustomOpDomain, name, &to.domain);
    call(to.api, CustomOpDomain_Add, to.domain, op);
    ++to.count;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
    const OrtApi* api = connect(base);
    return guarded(
        api,
        [&] {
            void* library = dlopen(std::getenv("FAKE_ORT_KERNELS"), RTLD_NOW);
            if (!library) throw std::runtime_error(dlerror());
            Registered to{api, nullptr, 0};
            using List = void (*)(const OrtApi*, void (*)(void*, const char*, const OrtCustomOp*), void*);
            reinterpret_cast<List>(dlsym(library, "opbridge_list_custom_ops"))(with_cuda(api), &add, &to);
            if (to.count == 0) throw std::runtime_error("there is no kernel for CUDA");
            call(api, AddCustomOpDomain, options, to.domain);
        },
        [](const char* message) { return std::string(message); });
}
