// Feeds the parser of schemas and the reader of nodes with texts that are mutated, and keeps those that reach new code: what libFuzzer
// does, with what g++ has. To be built with -fsanitize=address,undefined and -fsanitize-coverage=trace-pc, with node.cpp, allowed.cpp and
// evidence.cpp of the aten kernel; the parts of libtorch that they ask are made here.
//
//     parsers SECONDS SEED SEEDS PRESENT      SEEDS: texts, each after its length in a line; PRESENT: a file that holds the text being read
//     parsers PRESENT                         reads that text once more
//
// Prints the number of texts, of those that were taken, and of those that were kept.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/opbridge/kernels/aten/calling.h"
#include "../../src/opbridge/kernels/aten/node.h"

// -- what code was reached --------------------------------------------------------------------------------------------------------------

#define UNSEEN __attribute__((no_sanitize_coverage, no_sanitize("address", "undefined")))

// How often each step from one block of code to another was made by a text, and by how many of them at most by all texts; the places of
// those that the text made.
static unsigned char reached[1 << 16], known[1 << 16];
static uint16_t places[1 << 16];
static size_t steps;
static uintptr_t before;

extern "C" UNSEEN void __sanitizer_cov_trace_pc() {
    const uintptr_t place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    const uintptr_t mixed = (place * 0x9E3779B97F4A7C15u) >> 48;
    const uint16_t at = static_cast<uint16_t>(mixed ^ before);
    if (reached[at] == 0) places[steps++] = at;
    if (reached[at] < 255) ++reached[at];
    before = mixed >> 1;
}

// Whether a text made a step that none made before, or so often; forgets what it made. Counts are told apart as 1, 2, 3, 4 to 7, 8 to 15
// and more.
UNSEEN static bool is_new() {
    bool found = false;
    for (size_t i = 0; i < steps; ++i) {
        unsigned char& count = reached[places[i]];
        const unsigned char bit = count < 4 ? 1 << (count - 1) : count < 8 ? 8 : count < 16 ? 16 : 32;
        found = found || (bit & ~known[places[i]]) != 0;
        known[places[i]] |= bit;
        count = 0;
    }
    steps = 0;
    before = 0;
    return found;
}

// -- what stands for ONNX Runtime and libtorch ------------------------------------------------------------------------------------------

namespace opbridge {
namespace aten {

namespace {

// "key=value" in lines; the first of a key counts.
using Lines = std::map<std::string, std::string>;

const Lines& lines_of(const OrtKernelInfo* info) { return *reinterpret_cast<const Lines*>(info); }

const std::string& found(const OrtKernelInfo* info, const std::string& name) {
    const Lines& lines = lines_of(info);
    const auto at = lines.find(name);
    if (at == lines.end()) throw std::invalid_argument("the node has no attribute '" + name + "'");
    return at->second;
}

template <class Number>
std::vector<Number> numbers(const std::string& text) {
    std::vector<Number> all;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) {
        char* end = nullptr;
        if constexpr (std::is_same_v<Number, double>) all.push_back(std::strtod(word.c_str(), &end));
        else all.push_back(std::strtoll(word.c_str(), &end, 10));
        if (end == word.c_str()) throw std::invalid_argument("an attribute has another type");
    }
    return all;
}

int32_t parse_device(const char* text, uint32_t* type, int32_t* index) {
    if (std::strncmp(text, "cpu", 3) != 0) return 1;
    *type = 0;
    *index = -1;
    return 0;
}

std::string schema_of_torch;

}  // namespace

bool Attributes::has_text(const std::string& name) const { return lines_of(info_).count(name) != 0; }
std::string Attributes::text(const std::string& name) const { return found(info_, name); }
int64_t Attributes::integer(const std::string& name) const {
    const std::vector<int64_t> all = numbers<int64_t>(found(info_, name));
    if (all.empty()) throw std::invalid_argument("an attribute has another type");
    return all[0];
}
std::vector<int64_t> Attributes::integers(const std::string& name) const { return numbers<int64_t>(found(info_, name)); }
std::vector<double> Attributes::doubles(const std::string& name) const { return numbers<double>(found(info_, name)); }

Operator find_operator(const std::string&, const std::string&) { return {schema_of_torch, nullptr}; }
void choose_interface(Node&, const Operator&) {}
StableValue stable_value(double number) {
    StableValue bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}
Check check_of(const FunctionSchema&) { return nullptr; }

int32_t number_of(const char* kind, const std::string& name) {
    if (name.empty() || name.size() > 20) throw std::invalid_argument(std::string("torch has no ") + kind + " '" + name + "'");
    return 6;
}

namespace {

void set_up() {
    torch::loaded::libtorch.torch_parse_device_string = parse_device;
    torch::loaded::libtorch.torch_exception_get_what_without_backtrace = []() -> const char* { return "no device"; };
    torch::loaded::libtorch.aoti_torch_abi_version = []() { return interface_version; };
    for (int32_t onnx = 0; onnx < Dtypes::count; ++onnx) {
        torch::loaded::dtypes.of_onnx[onnx] = onnx == 0 || onnx == 8 || onnx == 14 || onnx == 15 ? -1 : onnx;
        torch::loaded::dtypes.complex_of_onnx[onnx] = onnx == 1 || onnx == 10 || onnx == 11 ? 30 + onnx : -1;
    }
}

// A schema is what torch prints, or what somebody wrote by hand.
void read_schema(const std::string& text) {
    const FunctionSchema schema = detail::parse_schema(text);
    for (const SchemaItem& item : schema.arguments) {
        if (item.type_at > item.type_end || item.type_end > text.size() || item.default_at > item.default_end ||
            item.default_end > text.size()) {
            throw std::logic_error("a place out of the text");
        }
    }
}

void read_node_of(const std::string& text) {
    Lines lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        const size_t at = line.find('=');
        if (at != std::string::npos) lines.emplace(line.substr(0, at), line.substr(at + 1));
    }
    schema_of_torch = lines["schema"];
    const Attributes attributes(nullptr, reinterpret_cast<const OrtKernelInfo*>(&lines));
    const auto count = [&](const char* key) { return static_cast<size_t>(std::strtoul(lines[key].c_str(), nullptr, 10)); };
    static const Allowed everything("*");
    read_node(attributes, count("inputs"), count("outputs"), everything);
}

}  // namespace

// Whether a text is taken. What is refused is refused by an error that says so.
static bool is_taken(const std::string& text) {
    try {
        if (text.compare(0, 7, "schema=") == 0) read_node_of(text);
        else read_schema(text);
        return true;
    } catch (const std::invalid_argument&) {
        return false;
    } catch (const std::runtime_error&) {
        return false;
    }
}

}  // namespace aten
}  // namespace opbridge

// -- what is fed ------------------------------------------------------------------------------------------------------------------------

// clang-format off
static const char* const words[] = {
    "Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "Tensor(a!)", "int[2]", "int[99999999999999999999]", "SymInt", "Scalar?", "float[]?",
    "str", "Device", "ScalarType", "Dict(str, Tensor)", "(Tensor, int)", "->", "=", "\"", "\\", "'", "[", "]", "(", ")", "*", ",", ":",
    "::", ".", "?", "!", "tensor", "complex_tensor", "input_int", "none", "int", "bool", "float", "complex", "dtype", "device", "ints",
    "bools", "floats", "[]", "[tensor,none]", "[[int]]", "9223372036854775807", "-9223372036854775808", "-1", "0", "nan", "1e999", "\n",
    "=tensor", "self:Tensor=tensor", "arguments=", "results=", "output_types=", "inputs=", "outputs=", "operator=", "overload_name=",
    "Tensor=tensor",
};
// clang-format on

static std::string mutated(std::string text, const std::vector<std::string>& corpus, std::mt19937_64& draw) {
    const auto below = [&](size_t count) { return static_cast<size_t>(draw() % std::max<size_t>(count, 1)); };
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
        const size_t at = below(text.size() + 1), length = std::min(text.size() - at, 1 + below(12));
        switch (below(7)) {
            case 0: text.insert(at, words[below(std::size(words))]); break;
            case 1: text.replace(at, length, words[below(std::size(words))]); break;
            case 2: text.erase(at, length); break;
            case 3: text.insert(at, text.substr(below(text.size() + 1), 1 + below(30))); break;
            case 4: text.insert(at, 1, static_cast<char>(draw())); break;
            case 5: {
                const std::string& other = corpus[below(corpus.size())];
                text = text.substr(0, at) + other.substr(below(other.size() + 1));
                break;
            }
            default:
                if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        }
    }
    return text.substr(0, 4000);
}

static std::vector<std::string> texts_of(const char* file) {
    std::ifstream stream(file, std::ios::binary);
    std::vector<std::string> all;
    for (std::string line; std::getline(stream, line);) {
        std::string text(std::strtoul(line.c_str(), nullptr, 10), '\0');
        stream.read(&text[0], static_cast<std::streamsize>(text.size()));
        all.push_back(text);
    }
    return all;
}

int main(int count, char** given) {
    opbridge::aten::set_up();
    if (count == 2) {
        for (const std::string& text : texts_of(given[1])) std::printf("%s\n", opbridge::aten::is_taken(text) ? "taken" : "refused");
        return 0;
    }
    if (count != 5) return 2;
    constexpr size_t most = 8192;
    const int file = open(given[4], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, most) != 0) return 2;
    char* present = static_cast<char*>(mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    std::mt19937_64 draw(std::strtoull(given[2], nullptr, 10));
    std::vector<std::string> corpus;
    unsigned long tried = 0, taken = 0;
    const auto feed = [&](const std::string& text) {
        const int head = std::snprintf(present, most, "%zu\n", text.size());
        std::memcpy(present + head, text.data(), text.size());
        is_new();  // what the loop itself reached is not the text's
        alarm(10);
        taken += opbridge::aten::is_taken(text);
        ++tried;
        if (is_new()) corpus.push_back(text);
    };
    const std::vector<std::string> seeds = texts_of(given[3]);
    if (seeds.empty()) return 2;
    for (const std::string& text : seeds) feed(text.substr(0, 4000));
    const size_t begun = corpus.size();
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::strtod(given[1], nullptr));
    while (std::chrono::steady_clock::now() < end) feed(mutated(corpus[draw() % corpus.size()], corpus, draw));
    std::printf("{\"texts\": %lu, \"taken\": %lu, \"seeds\": %zu, \"kept\": %zu}\n", tried, taken, begun, corpus.size() - begun);
    return 0;
}
