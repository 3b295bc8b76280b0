#include <opbridge/kernel.h>
using namespace opbridge;

template <class T>
void my_add(Input<T> a, Input<T> b, double alpha, Output<T> out) {
    for (int64_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(alpha) * a[i] + b[i];
}

Shape my_add_shape(Shape a, Shape b, double) {
    require(a == b, "a and b must have the same shape");
    return a;
}

OPBRIDGE_KERNEL("mylib::my_add(Tensor a, Tensor b, *, float alpha=2.0) -> Tensor", my_add, my_add_shape, floating);
