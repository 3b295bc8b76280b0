#include "checks_for_torch.h"

#include <array>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "checks.h"

namespace opbridge {
namespace aten {

namespace {

using detail::is_list;
using detail::SchemaItem;
using detail::without_optional;

struct Defined {
    Check check;
    std::vector<SchemaItem> arguments;
};

// The interface tells a function nothing of the operator that it is called for, so that each has a function of its own.
constexpr size_t most = 128;
std::array<Defined, most> defined;

// The arguments of a call, which are ours to delete.
class Taken {
  public:
    Taken(const std::vector<SchemaItem>& arguments, const StableValue* stack) : arguments_(arguments), stack_(stack) {
        for (size_t i = 0; i < arguments.size(); ++i) {
            const std::string type = without_optional(arguments[i].type);
            const bool optional = type != arguments[i].type, is_none = optional && stack[i] == none_value;
            call.values.push_back(
                {arguments[i].name, type, is_none, optional && !is_none ? *reinterpret_cast<StableValue*>(stack[i]) : stack[i]});
        }
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken() {
        const Libtorch& torch = libtorch();
        std::string item;
        for (size_t i = 0; i < arguments_.size(); ++i) {
            const CheckedValue& each = call.values[i];
            if (each.is_none) continue;
            if (each.type == "Tensor") torch.aoti_torch_delete_tensor_object(reinterpret_cast<TensorObject*>(each.value));
            else if (each.type == "str") torch.torch_delete_string(reinterpret_cast<StringObject*>(each.value));
            else if (is_list(each.type, &item)) delete_list(reinterpret_cast<ListObject*>(each.value), item);
            if (each.type != arguments_[i].type) torch.torch_delete_stable_ivalue(reinterpret_cast<StableValue*>(stack_[i]));
        }
    }

    CheckedCall call;

  private:
    // A list does not own its items.
    static void delete_list(ListObject* list, const std::string& type) {
        const Libtorch& torch = libtorch();
        size_t size = 0;
        torch.torch_list_size(list, &size);
        for (size_t i = 0; type == "Tensor" && i < size; ++i) {
            StableValue item = 0;
            if (torch.torch_list_get_item(list, i, &item) == 0)
                torch.aoti_torch_delete_tensor_object(reinterpret_cast<TensorObject*>(item));
        }
        torch.torch_delete_list(list);
    }

    const std::vector<SchemaItem>& arguments_;
    const StableValue* stack_;
};

template <size_t at>
void entry(StableValue* stack, uint64_t, uint64_t) {
    const Taken taken(defined[at].arguments, stack);
    defined[at].check(taken.call);
}

using Entry = void (*)(StableValue*, uint64_t, uint64_t);

template <size_t... at>
constexpr std::array<Entry, most> entries_of(std::index_sequence<at...>) {
    return {&entry<at>...};
}

constexpr std::array<Entry, most> entries = entries_of(std::make_index_sequence<most>());

// No check reads these, and the interface does not pass them.
bool is_left_out(const SchemaItem& argument) { return without_optional(argument.type) == "Generator" || argument.type == "Scalar?"; }

}  // namespace

bool define_check(const std::string& text) {
    static std::mutex mutex;
    static LibraryObject *definitions = nullptr, *implementations = nullptr;
    static size_t count = 0;
    const FunctionSchema schema = detail::parse_schema(text);
    const Check found = check_of(schema);
    if (!found) return false;
    const std::lock_guard<std::mutex> lock(mutex);
    if (count == most) throw std::logic_error("there are more operators with checks than places for them");
    load("");
    const Libtorch& torch = libtorch();
    if (!definitions) {
        check(torch.aoti_torch_library_init_fragment("opbridge_checks", "opbridge", 0, &definitions));
        check(torch.aoti_torch_library_init_impl("opbridge_checks", "CompositeImplicitAutograd", "opbridge", 0, &implementations));
    }
    const std::string name = schema.name + (schema.overload.empty() ? "" : "." + schema.overload);
    Defined& made = defined[count];
    made.check = found;
    std::string arguments;
    for (const SchemaItem& each : schema.arguments) {
        if (is_left_out(each)) continue;
        made.arguments.push_back(each);
        // The interface does not pass numbers of any type.
        if (each.type == "Scalar") made.arguments.back().type = "Tensor";
        arguments += (arguments.empty() ? "" : ", ") + made.arguments.back().type + " " + each.name;
    }
    check(torch.aoti_torch_library_def(definitions, (name + "(" + arguments + ") -> ()").c_str()));
    check(torch.torch_library_impl(implementations, name.c_str(), entries[count], interface_version));
    ++count;
    return true;
}

}  // namespace aten
}  // namespace opbridge
