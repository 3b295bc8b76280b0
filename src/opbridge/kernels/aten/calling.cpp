// The interpreter's stack holds values that only libtorch can make and read. It makes them for operators of our own:
//     opbridge_aten::push_1() -> (Tensor, int, SymInt[])      puts arguments on the stack, a number in the place of a Scalar
//     opbridge_aten::pop_2(Tensor a0, float a1) -> ()         takes results from it
// The C interface calls our side of them with its own values, and converts these.
#include "calling.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

namespace opbridge {
namespace aten {

namespace {

// The values of the call on this thread, which `push` reads and `pop` writes.
thread_local StableValue* call_values = nullptr;

void push(StableValue* stack, uint64_t, uint64_t results) { std::memcpy(stack, call_values, results * sizeof(StableValue)); }
void pop(StableValue* stack, uint64_t arguments, uint64_t) { std::memcpy(call_values, stack, arguments * sizeof(StableValue)); }

// An operator of our own with these types, made once.
const Run* own_operator(bool pushes, const std::vector<std::string>& types) {
    static std::mutex mutex;
    static auto* known = new std::map<std::string, const Run*>;
    static LibraryObject *definitions = nullptr, *implementations = nullptr;
    static std::string name_space;
    std::string signature;
    for (const std::string& type : types) {
        if (!signature.empty()) signature += ", ";
        signature += pushes ? type : type + " a" + std::to_string(&type - types.data());
    }
    signature = pushes ? "() -> (" + signature + ")" : "(" + signature + ") -> ()";
    const std::lock_guard<std::mutex> lock(mutex);
    const Run*& run = (*known)[signature];
    if (run) return run;
    const Libtorch& torch = libtorch();
    if (!definitions) {
        // Two copies of this library in a process do not take each other's names.
        char name[48];
        std::snprintf(name, sizeof name, "opbridge_aten_%p", reinterpret_cast<void*>(&push));
        name_space = name;
        check(torch.aoti_torch_library_init_fragment(name, "opbridge", 0, &definitions));
        check(torch.aoti_torch_library_init_impl(name, "CompositeImplicitAutograd", "opbridge", 0, &implementations));
    }
    const std::string name = (pushes ? "push_" : "pop_") + std::to_string(known->size());
    check(torch.aoti_torch_library_def(definitions, (name + signature).c_str()));
    check(torch.torch_library_impl(implementations, name.c_str(), pushes ? &push : &pop, interface_version));
    run = find_operator(name_space + "::" + name, "").run;
    if (!run) known->erase(signature);
    return run;
}

// The type that makes the value that a node has for an argument.
std::string pushed_type(const Value& value) {
    if (value.kind == Kind::none) return "Tensor?";
    if (value.kind == Kind::complex) return "Tensor";  // until it is on the stack
    std::string item;
    if (is_list(value.type, &item)) {
        if (item != "Scalar") return item == "SymFloat" ? "float[]" : item == "SymBool" ? "bool[]" : value.type;
        if (value.items.empty()) return "float[]";
        const std::string first = pushed_type(value.items[0]);
        for (const Value& each : value.items) {
            if (pushed_type(each) != first || each.kind == Kind::complex) {
                throw std::invalid_argument("it has a list of numbers of mixed types, which libtorch does not support");
            }
        }
        return first + "[]";
    }
    if (value.type == "SymFloat") return "float";
    if (value.type == "SymBool") return "bool";
    if (value.type != "Scalar") return value.type;
    if (value.kind == Kind::integer || value.kind == Kind::input_int) return "int";
    return value.kind == Kind::number || value.kind == Kind::input_float ? "float" : "bool";
}

std::string popped_type(const Result& result) {
    if (result.type == "SymFloat") return "float";
    if (result.type == "SymBool") return "bool";
    if (result.type != "Scalar") return result.type + (result.optional ? "?" : "");
    return result.kind == Kind::integer ? "int" : result.kind == Kind::number ? "float" : "bool";
}

bool is_plain(const std::string& type) {
    std::string item;
    const std::string inner = is_list(type, &item) ? without_optional(item) : type;
    for (const char* known : {"Tensor", "int", "SymInt", "float", "bool", "str", "ScalarType", "InputLayout", "Device", "MemoryFormat"}) {
        if (inner == known) return true;
    }
    return false;
}

// The message of an error of libtorch, without where it was raised.
std::string message_of(const std::exception& error) {
    const std::string message = error.what();
    return message.substr(0, message.find("\nException raised from "));
}

}  // namespace

StableValue stable_value(double number) {
    StableValue value;
    std::memcpy(&value, &number, sizeof value);
    return value;
}

void choose_interface(Node& node, const Operator& op) {
    bool passes = true;
    for (const Value& value : node.arguments) passes = passes && (value.kind == Kind::none || is_plain(value.type));
    for (const Result& result : node.results) {
        // It reads the results in the wrong order where their types differ.
        passes = passes && is_plain(result.type) && result.type == node.results[0].type && result.optional == node.results[0].optional;
    }
    if (passes) return;
    std::vector<std::string> pushed, popped;
    bool has_complex = false;
    for (const Value& value : node.arguments) {
        pushed.push_back(pushed_type(value));
        has_complex = has_complex || value.kind == Kind::complex;
    }
    for (const Result& result : node.results) popped.push_back(popped_type(result));
    node.run = op.run;
    node.push_arguments = own_operator(true, pushed);
    node.pop_results = own_operator(false, popped);
    if (has_complex) node.item = find_operator("aten::_local_scalar_dense", "").run;
    if (!node.run || !node.push_arguments || !node.pop_results || (has_complex && !node.item)) {
        throw std::invalid_argument("its arguments can be passed only to torch 2.13 to 2.15, but torch " + libtorch().version() +
                                    " is installed, which is built differently. Install one of these versions");
    }
}

void call_operator(const Node& node, std::vector<StableValue>& values) {
    const size_t arguments = node.arguments.size(), results = node.results.size();
    values.resize(arguments > results ? arguments : results);
    if (!node.run) {
        check(libtorch().torch_call_dispatcher(node.name.c_str(), node.overload.c_str(), values.data(), interface_version));
        return;
    }
    struct OwnedStack : Stack {
        ~OwnedStack() {
            if (!empty()) aten::clear(*this);
        }
    } stack;
    stack.reserve(values.size());
    try {
        call_values = values.data();
        (*node.push_arguments)(stack);
        if (stack.size() != arguments) throw std::logic_error("this libtorch has an incompatible value layout");
        for (size_t i = 0; node.item && i < arguments; ++i) {
            if (node.arguments[i].kind != Kind::complex) continue;
            OwnedStack one;
            one.push_back(stack[i]);
            stack[i] = IValue();  // None
            (*node.item)(one);
            stack[i] = one.at(0);
            one.pop_back();
        }
        (*node.run)(stack);
        call_values = values.data();  // the operator may have run others of these nodes on this thread
        (*node.pop_results)(stack);
    } catch (const std::exception& error) {
        throw std::runtime_error(message_of(error));
    }
}

}  // namespace aten
}  // namespace opbridge
