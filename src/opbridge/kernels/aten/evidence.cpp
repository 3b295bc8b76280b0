#include "evidence.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

namespace opbridge {
namespace aten {

namespace {

struct Operator {
    const char* name;
    int calls, ran;
    const char* found;  // "" for nothing
};

constexpr int calls_needed = 2000;
constexpr int ran_needed = 50;

#define OPERATOR(name, calls, ran, found) {name, calls, ran, found},
constexpr Operator torch_2_13[] = {
#include "evidence/torch_2_13.def"
};
constexpr Operator torch_2_14[] = {
#include "evidence/torch_2_14.def"
};
constexpr Operator torch_2_15[] = {
#include "evidence/torch_2_15.def"
};
#undef OPERATOR

struct Release {
    int major, minor;
    const Operator *first, *last;

    std::string name() const { return std::to_string(major) + "." + std::to_string(minor); }
    long number() const { return major * 1000L + minor; }
};

// From the oldest to the newest.
constexpr Release releases[] = {
    {2, 13, std::begin(torch_2_13), std::end(torch_2_13)},
    {2, 14, std::begin(torch_2_14), std::end(torch_2_14)},
    {2, 15, std::begin(torch_2_15), std::end(torch_2_15)},
};

// The releases whose evidence counts for another one.
std::vector<const Release*> releases_for(const std::string& version) {
    char* rest = nullptr;
    const long major = std::strtol(version.c_str(), &rest, 10);
    const long number = major * 1000 + (*rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0);
    std::vector<const Release*> all;
    for (const Release& each : releases) {
        if (each.number() == number) return {&each};
        all.push_back(&each);
    }
    // One on either side, or else the two nearest ones.
    size_t above = 0;
    while (above < all.size() && all[above]->number() < number) ++above;
    const size_t first = std::min(above > 0 ? above - 1 : 0, all.size() - 2);
    return {all[first], all[first + 1]};
}

std::string missing(const Release& release, const std::string& name) {
    const auto before = [](const Operator& each, const std::string& wanted) { return std::strcmp(each.name, wanted.c_str()) < 0; };
    const Operator* found = std::lower_bound(release.first, release.last, name, before);
    const bool is_there = found != release.last && name == found->name;
    if (is_there && *found->found)
        return std::string("tests with hostile calls in torch ") + release.name() + " showed that it " + found->found;
    if (is_there && found->calls >= calls_needed && found->ran >= ran_needed) return "";
    return "there is no evidence that it is safe for any arguments in torch " + release.name() + ": of " +
           std::to_string(is_there ? found->calls : 0) + " hostile calls in guarded memory, " + std::to_string(is_there ? found->ran : 0) +
           " ran; " + std::to_string(calls_needed) + " calls are needed, of which " + std::to_string(ran_needed) + " must run";
}

}  // namespace

std::string missing_evidence(const std::string& name, const std::string& torch_version) {
    const std::vector<const Release*> known = releases_for(torch_version);
    for (const Release* each : known) {
        const std::string reason = missing(*each, name);
        if (reason.empty()) continue;
        if (known.size() == 1) return reason;
        return reason + " (the list for torch " + torch_version + " is the intersection of those for " + known[0]->name() + " and " +
               known[1]->name() + ")";
    }
    return "";
}

}  // namespace aten
}  // namespace opbridge
