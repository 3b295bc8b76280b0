// Shape functions over TensorRT's expressions: the sizes of inputs are symbols, and what is computed of them is an expression that TensorRT
// evaluates when it knows the sizes.
//
// A comparison has no answer yet, so that the function is called once for each row of answers that it asks for. Rows for which it throws
// are those that `require` excludes: the sizes that come are checked by the same function before a kernel is launched. Where rows give
// other sizes, the expression selects among them by the comparison, which TensorRT evaluates to 0 or 1.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operator.h"
#include "symbols.h"
#include "tensorrt_api.h"

namespace opbridge OPBRIDGE_HIDDEN {
namespace tensorrt {

using namespace detail;

// The expressions that symbols stand for: symbol n is number n - 1.
class Expressions {
  public:
    explicit Expressions(IExprBuilder& builder) : builder_(builder) {}

    Dim dim(const IDimensionExpr* expression) {
        if (!expression) throw std::runtime_error("TensorRT gave no expression for a size");
        if (expression->isConstant()) return expression->getConstantValue();
        Dim found;
        for (size_t i = 0; i < all_.size(); ++i) {
            if (all_[i] == expression) found.symbol = static_cast<int64_t>(i) + 1;
        }
        if (found.symbol == 0) {
            all_.push_back(expression);
            found.symbol = static_cast<int64_t>(all_.size());
        }
        return found;
    }

    const IDimensionExpr* expression(const Dim& dim) {
        if (!dim.is_known()) return all_.at(static_cast<size_t>(dim.symbol) - 1);
        const IDimensionExpr* found = builder_.constant(dim.known);
        if (!found) throw std::runtime_error("TensorRT made no expression of a number");
        return found;
    }

    // The same operation on the same sizes is the same symbol.
    Dim apply(DimensionOperation operation, const Dim& left, const Dim& right) {
        const auto key = std::make_tuple(operation, left.known, left.symbol, right.known, right.symbol);
        const auto found = made_.find(key);
        if (found != made_.end()) return found->second;
        const IDimensionExpr* made = builder_.operation(operation, *expression(left), *expression(right));
        return made_.emplace(key, dim(made)).first->second;
    }

    Dim modulo(const Dim& left, const Dim& right) {
        const Dim whole = apply(DimensionOperation::kPROD, apply(DimensionOperation::kFLOOR_DIV, left, right), right);
        return apply(DimensionOperation::kSUB, left, whole);
    }

    // The first where a comparison holds, or else the second.
    Dim select(const Dim& comparison, const Dim& first, const Dim& second) {
        if (first.known == second.known && first.symbol == second.symbol) return first;
        if (comparison.is_known()) return comparison.known ? first : second;
        const Dim otherwise = apply(DimensionOperation::kSUB, 1, comparison);
        return apply(DimensionOperation::kSUM, apply(DimensionOperation::kPROD, comparison, first),
                     apply(DimensionOperation::kPROD, otherwise, second));
    }

  private:
    IExprBuilder& builder_;
    std::vector<const IDimensionExpr*> all_;
    std::map<std::tuple<DimensionOperation, int64_t, int64_t, int64_t, int64_t>, Dim> made_;
};

// One operator's shape function, called for each row of answers.
class ShapeRows {
  public:
    ShapeRows(const Operator& op, Expressions& expressions) : op_(op), expressions_(expressions) {}

    // Throws where the sizes cannot be written as expressions.
    std::vector<Shape> run(Call& call) {
        Found found = shapes_after(call, {});
        if (!found.holds) throw std::invalid_argument(first_refusal_);
        for (size_t output = 0; output < found.shapes.size(); ++output) {
            for (const Dim& dim : found.shapes[output]) {
                if (dim.is_computed()) {
                    throw std::invalid_argument(
                        "output " + std::to_string(output) +
                        " has a size that only the kernel can compute, which is not supported in TensorRT's plug-ins");
                }
            }
        }
        return found.shapes;
    }

  private:
    static constexpr int most_calls = 2048;
    static constexpr size_t most_questions = 64;  // in one call
    static constexpr const char* too_many =
        "the shape function compares too many sizes that are not known when the engine is built. Give fewer dynamic sizes, or compute with "
        "min and max";

    struct Found {
        bool holds = false;  // whether any row of answers is not refused
        std::vector<Shape> shapes;
    };

    struct Question {
        Dim comparison;
        bool answer;
    };

    // The shapes for all rows of answers that begin in one way.
    Found shapes_after(Call& call, const std::vector<bool>& answers) {
        if (++calls_ > most_calls) throw std::invalid_argument(too_many);
        answers_ = answers;
        questions_.clear();
        const Found here = shapes_now(call);
        // What was asked beyond the row was answered with yes; the other answers follow, the last question first.
        const std::vector<Question> asked = questions_;
        Found found = here;
        for (size_t place = asked.size(); place > answers.size(); --place) {
            std::vector<bool> other;
            for (size_t i = 0; i + 1 < place; ++i) other.push_back(asked[i].answer);
            other.push_back(false);
            found = either(asked[place - 1].comparison, found, shapes_after(call, other));
        }
        return found;
    }

    Found either(const Dim& comparison, const Found& first, const Found& second) {
        if (!first.holds || !second.holds) return first.holds ? first : second;
        Found found;
        found.holds = true;
        if (first.shapes.size() != second.shapes.size()) throw std::invalid_argument("the number of outputs depends on sizes");
        for (size_t output = 0; output < first.shapes.size(); ++output) {
            const Shape &one = first.shapes[output], &other = second.shapes[output];
            if (one.rank() != other.rank()) {
                throw std::invalid_argument("the number of dimensions of output " + std::to_string(output) + " depends on sizes");
            }
            Shape shape;
            for (int64_t axis = 0; axis < one.rank(); ++axis) {
                const bool is_computed = one[axis].is_computed() || other[axis].is_computed();
                shape.push_back(is_computed ? one[axis].is_computed() ? one[axis] : other[axis]
                                            : expressions_.select(comparison, one[axis], other[axis]));
            }
            found.shapes.push_back(shape);
        }
        return found;
    }

    Found shapes_now(Call& call) {
        const Symbols own{&apply, this};
        const Symbols* before = symbols();
        symbols() = &own;
        computed_dim_count() = 0;
        failure_.clear();
        Found found;
        bool undecided = false;
        try {
            const Shapes shapes = op_.shapes(call);
            for (size_t i = 0; i < shapes.size(); ++i) found.shapes.push_back(shapes[i]);
            found.holds = true;
        } catch (const Undecided&) {
            undecided = true;
        } catch (const std::exception& error) {
            if (first_refusal_.empty()) first_refusal_ = error.what();
        } catch (...) {
            symbols() = before;
            throw;
        }
        symbols() = before;
        if (undecided) throw std::invalid_argument(failure_);
        return found;
    }

    // What the shape function asks of sizes; see `Symbols`.
    static int32_t apply(void* self, int32_t operation, const Dim* left, const Dim* right, Dim* result) {
        ShapeRows& rows = *static_cast<ShapeRows*>(self);
        try {
            *result = rows.applied(static_cast<Operation>(operation), *left, *right);
            return 0;
        } catch (const std::exception& error) {
            rows.failure_ = error.what();
            return 1;
        }
    }

    Dim applied(Operation operation, const Dim& left, const Dim& right) {
        switch (operation) {
            case Operation::add: return expressions_.apply(DimensionOperation::kSUM, left, right);
            case Operation::subtract: return expressions_.apply(DimensionOperation::kSUB, left, right);
            case Operation::multiply: return expressions_.apply(DimensionOperation::kPROD, left, right);
            case Operation::divide: return expressions_.apply(DimensionOperation::kFLOOR_DIV, left, right);
            case Operation::modulo: return expressions_.modulo(left, right);
            case Operation::minimum: return expressions_.apply(DimensionOperation::kMIN, left, right);
            case Operation::maximum: return expressions_.apply(DimensionOperation::kMAX, left, right);
            case Operation::equal: return answer(expressions_.apply(DimensionOperation::kEQUAL, left, right));
            case Operation::less: return answer(expressions_.apply(DimensionOperation::kLESS, left, right));
            default:
                throw std::invalid_argument(
                    "the shape function takes a size that is not known when the engine is built as a number (Dim::value()). Let it compute "
                    "with Dim, or give the input a fixed size");
        }
    }

    Dim answer(const Dim& comparison) {
        if (comparison.is_known()) return comparison;
        for (const Question& each : questions_) {
            if (each.comparison.symbol == comparison.symbol) return each.answer ? 1 : 0;
        }
        const size_t place = questions_.size();
        if (place == most_questions) throw std::invalid_argument(too_many);
        const bool found = place < answers_.size() ? answers_[place] : true;
        questions_.push_back({comparison, found});
        return found ? 1 : 0;
    }

    const Operator& op_;
    Expressions& expressions_;
    std::vector<bool> answers_;
    std::vector<Question> questions_;
    std::string failure_, first_refusal_;
    int calls_ = 0;
};

}  // namespace tensorrt
}  // namespace opbridge
