// The interpreter's stack holds values that only libtorch can make and read. It makes them for operators of our own:
//     opbridge_aten::give_1() -> (Tensor, int, SymInt[])      puts arguments on the stack, a number in the place of a Scalar
//     opbridge_aten::take_2(Tensor a0, float a1) -> ()        takes results from it
// The C interface calls our side of them with its own values, and converts these.
#include "exchange.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

namespace opbridge {
namespace aten {

namespace {

// What `give` and `take` exchange with their caller on this thread.
thread_local Stable* exchanged = nullptr;

void give(Stable* stack, uint64_t, uint64_t results) { std::memcpy(stack, exchanged, results * sizeof(Stable)); }
void take(Stable* stack, uint64_t arguments, uint64_t) { std::memcpy(exchanged, stack, arguments * sizeof(Stable)); }

// An operator of our own with these types, made once.
const Run* own_operator(bool gives, const std::vector<std::string>& types) {
    static std::mutex mutex;
    static auto* known = new std::map<std::string, const Run*>;
    static LibraryObject *definitions = nullptr, *implementations = nullptr;
    static std::string space;
    std::string signature;
    for (const std::string& type : types) {
        if (!signature.empty()) signature += ", ";
        signature += gives ? type : type + " a" + std::to_string(&type - types.data());
    }
    signature = gives ? "() -> (" + signature + ")" : "(" + signature + ") -> ()";
    const std::lock_guard<std::mutex> lock(mutex);
    const Run*& run = (*known)[signature];
    if (run) return run;
    const Libtorch& torch = libtorch();
    if (!definitions) {
        // Two copies of this library in a process do not take each other's names.
        char name[48];
        std::snprintf(name, sizeof name, "opbridge_aten_%p", reinterpret_cast<void*>(&give));
        space = name;
        check(torch.aoti_torch_library_init_fragment(name, "opbridge", 0, &definitions));
        check(torch.aoti_torch_library_init_impl(name, "CompositeImplicitAutograd", "opbridge", 0, &implementations));
    }
    const std::string name = (gives ? "give_" : "take_") + std::to_string(known->size());
    check(torch.aoti_torch_library_def(definitions, (name + signature).c_str()));
    check(torch.torch_library_impl(implementations, name.c_str(), gives ? &give : &take, interface_version));
    run = find_operator(space + "::" + name, "").run;
    if (!run) known->erase(signature);
    return run;
}

// The type that makes the value that a node has for an argument.
std::string given_type(const Value& value) {
    if (value.kind == Kind::none) return "Tensor?";
    if (value.kind == Kind::complex) return "Tensor";  // until it is on the stack
    std::string item;
    if (is_list(value.type, &item)) {
        if (item != "Scalar") return item == "SymFloat" ? "float[]" : item == "SymBool" ? "bool[]" : value.type;
        if (value.items.empty()) return "float[]";
        const std::string first = given_type(value.items[0]);
        for (const Value& each : value.items) {
            if (given_type(each) != first || each.kind == Kind::complex) {
                throw std::invalid_argument("it has a list of numbers of several kinds, which no interface of libtorch takes");
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

std::string taken_type(const Result& result) {
    if (result.type == "SymFloat") return "float";
    if (result.type == "SymBool") return "bool";
    if (result.type != "Scalar") return result.type + (result.optional ? "?" : "");
    return result.kind == Kind::integer ? "int" : result.kind == Kind::number ? "float" : "bool";
}

bool is_plain(const std::string& type) {
    std::string item;
    const std::string inner = is_list(type, &item) ? without_optional(item) : type;
    for (const char* known : {"Tensor", "int", "SymInt", "float", "bool", "str", "ScalarType", "Layout", "Device", "MemoryFormat"}) {
        if (inner == known) return true;
    }
    return false;
}

// The words of an error of libtorch, without where it was raised.
std::string words_of(const std::exception& error) {
    const std::string words = error.what();
    return words.substr(0, words.find("\nException raised from "));
}

}  // namespace

Stable bits(double number) {
    Stable value;
    std::memcpy(&value, &number, sizeof value);
    return value;
}

double number_of(Stable value) {
    double number;
    std::memcpy(&number, &value, sizeof number);
    return number;
}

void choose_interface(Node& node, const Operator& op) {
    bool passes = true;
    for (const Value& value : node.arguments) passes = passes && (value.kind == Kind::none || is_plain(value.type));
    for (const Result& result : node.results) {
        // It reads the results in the wrong order where their types differ.
        passes = passes && is_plain(result.type) && result.type == node.results[0].type && result.optional == node.results[0].optional;
    }
    if (passes) return;
    std::vector<std::string> given, taken;
    bool has_complex = false;
    for (const Value& value : node.arguments) {
        given.push_back(given_type(value));
        has_complex = has_complex || value.kind == Kind::complex;
    }
    for (const Result& result : node.results) taken.push_back(taken_type(result));
    node.run = op.run;
    node.give = own_operator(true, given);
    node.take = own_operator(false, taken);
    if (has_complex) node.item = find_operator("aten::_local_scalar_dense", "").run;
    if (!node.run || !node.give || !node.take || (has_complex && !node.item)) {
        throw std::invalid_argument("its arguments can be passed only in a way that was written for torch 2.13 to 2.15, and torch " +
                                    libtorch().version() + " is here, which is built differently. Install one of these");
    }
}

void call_operator(const Node& node, std::vector<Stable>& values) {
    const size_t arguments = node.arguments.size(), results = node.results.size();
    values.resize(arguments > results ? arguments : results);
    if (!node.run) {
        check(libtorch().torch_call_dispatcher(node.name.c_str(), node.overload.c_str(), values.data(), interface_version));
        return;
    }
    struct Cleared : Stack {
        ~Cleared() {
            if (!empty()) aten::clear(*this);
        }
    } stack;
    stack.reserve(values.size());
    try {
        exchanged = values.data();
        (*node.give)(stack);
        if (stack.size() != arguments) throw std::logic_error("this libtorch has values of another size");
        for (size_t i = 0; node.item && i < arguments; ++i) {
            if (node.arguments[i].kind != Kind::complex) continue;
            Cleared one;
            one.push_back(stack[i]);
            stack[i] = Opaque();  // None
            (*node.item)(one);
            stack[i] = one.at(0);
            one.pop_back();
        }
        (*node.run)(stack);
        exchanged = values.data();  // the operator may have run others of these nodes on this thread
        (*node.take)(stack);
    } catch (const std::exception& error) {
        throw std::runtime_error(words_of(error));
    }
}

}  // namespace aten
}  // namespace opbridge
