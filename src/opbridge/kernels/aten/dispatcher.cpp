#include "dispatcher.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>

#include <dlfcn.h>

#include "libtorch.h"

namespace opbridge {
namespace aten {

namespace {

// c10::OperatorName, and c10::OperatorHandle, which has a destructor of its own (that decides how it is returned).
struct OperatorName {
    std::string name, overload;
};
struct OperatorHandle {
    void* entry;
    void* place;
    ~OperatorHandle() {}
};
struct JitOperator {
    void* entry;
    void* place;
    Run run;
};

struct Internals {
    void* (*dispatcher)();
    std::optional<OperatorHandle> (*find_op)(void* dispatcher, const OperatorName&);
    std::string (*dump_state)(const void* entry);
    std::shared_ptr<JitOperator> (*find_operator_for)(const OperatorName&);
} internals;

// Whether an address is one of libtorch's functions.
bool is_code_of_libtorch(const void* address) {
    Dl_info info, own;
    return address && dladdr(address, &info) && dladdr(reinterpret_cast<void*>(libtorch().torch_call_dispatcher), &own) &&
           info.dli_fbase == own.dli_fbase;
}

// Whether a std::function, as libstdc++ lays it out (storage, manager, invoker), is one that libtorch made.
bool is_of_libtorch(const Run& run) {
    static_assert(sizeof(Run) == 4 * sizeof(void*), "this library is written for libstdc++'s std::function");
    void* words[4];
    std::memcpy(words, &run, sizeof words);
    return is_code_of_libtorch(words[2]) && is_code_of_libtorch(words[3]);
}

}  // namespace

void connect_dispatcher() {
    const auto find = [](auto& function, const char* name) { libtorch().find(function, name, "aten nodes"); };
    find(internals.dispatcher, "_ZN3c1010Dispatcher13realSingletonEv");
    find(internals.find_op, "_ZN3c1010Dispatcher6findOpERKNS_12OperatorNameE");
    find(internals.dump_state, "_ZNK3c104impl13OperatorEntry9dumpStateB5cxx11Ev");
    find(internals.find_operator_for, "_ZN5torch3jit15findOperatorForERKN3c1012OperatorNameE");
}

Operator find_operator(const std::string& name, const std::string& overload) {
    const OperatorName full{name, overload};
    const std::optional<OperatorHandle> handle = internals.find_op(internals.dispatcher(), full);
    const std::string state = handle ? internals.dump_state(handle->entry) : "";
    const std::string start = "\nschema: ";
    const size_t at = state.find(start);
    Operator result;
    if (at != std::string::npos) {
        const size_t from = at + start.size();
        result.schema = state.substr(from, state.find('\n', from) - from);
    }
    if (result.schema.empty() || result.schema[0] == '(') {
        throw std::invalid_argument("torch " + libtorch().version() + " has no operator " + name +
                                    (overload.empty() ? "" : "." + overload) +
                                    "; load the library that defines it, or install the torch version that the model was exported with");
    }
    const std::shared_ptr<JitOperator> known = internals.find_operator_for(full);
    if (known && known->entry == handle->entry && known->place == handle->place && is_of_libtorch(known->run)) {
        static auto* kept = new std::vector<std::shared_ptr<JitOperator>>;  // as long as the process: kernels point into them
        static std::mutex mutex;
        const std::lock_guard<std::mutex> lock(mutex);
        kept->push_back(known);
        result.run = &known->run;
    }
    return result;
}

void clear(Stack& stack) {
    // libtorch deletes a value where it stands alone on the heap.
    for (const IValue& value : stack) {
        void* alone = ::operator new(sizeof value);
        std::memcpy(alone, &value, sizeof value);
        libtorch().aoti_torch_delete_c10_value_object(alone);
    }
    stack.clear();
}

}  // namespace aten
}  // namespace opbridge
