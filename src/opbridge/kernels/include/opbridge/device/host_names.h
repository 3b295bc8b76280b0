// Names of the CPU's part of a kernel file, which the device compiler reads over: shape functions and kernels of the CPU beside a device
// function need not be left out of what it is given. Nothing of this is ever called.
#pragma once

#include "traits.h"

namespace opbridge {

struct Dim {
    Dim();
    template <class N>
    Dim(N);
    static Dim computed();
    bool is_known() const;
    bool is_computed() const;
    int64_t value() const;
    Dim& operator+=(const Dim&);
    Dim& operator-=(const Dim&);
    Dim& operator*=(const Dim&);
    Dim& operator/=(const Dim&);
    friend Dim operator+(const Dim&, const Dim&);
    friend Dim operator-(const Dim&, const Dim&);
    friend Dim operator*(const Dim&, const Dim&);
    friend Dim operator/(const Dim&, const Dim&);
    friend Dim operator%(const Dim&, const Dim&);
    friend Dim operator-(const Dim&);
    friend Dim min(const Dim&, const Dim&);
    friend Dim max(const Dim&, const Dim&);
    friend bool operator==(const Dim&, const Dim&);
    friend bool operator!=(const Dim&, const Dim&);
    friend bool operator<(const Dim&, const Dim&);
    friend bool operator>(const Dim&, const Dim&);
    friend bool operator<=(const Dim&, const Dim&);
    friend bool operator>=(const Dim&, const Dim&);
};

class Shape {
  public:
    template <class... D>
    Shape(D...);
    int64_t rank() const;
    Dim& operator[](int64_t) const;
    void push_back(const Dim&);
    const Dim* begin() const;
    const Dim* end() const;
    friend bool operator==(const Shape&, const Shape&);
    friend bool operator!=(const Shape&, const Shape&);
};

class Shapes {
  public:
    template <class... S>
    Shapes(S...);
};

void require(bool, const char*);

template <class T>
struct HostView {
    int64_t rank() const;
    const int64_t* sizes() const;
    int64_t size() const;
    int64_t size(int64_t) const;
    bool empty() const;
    Shape shape() const;
    T* data() const;
    T* begin() const;
    T* end() const;
    T& operator[](int64_t) const;
    template <class... I>
    T& operator()(I...) const;
};

template <class T, int = -1>
struct Input : HostView<const T> {};

template <class T, int = -1>
struct Output : HostView<T> {
    template <class... S>
    void allocate(S...);
};

template <class T, int = -1>
struct Inputs {
    int64_t size() const;
    const Input<T>& operator[](int64_t) const;
};

template <class T, int = -1>
struct Outputs {
    int64_t size() const;
    Output<T>& operator[](int64_t) const;
};

template <class T, int = -1>
struct HostInput : Input<T> {};

struct Dim3 {
    template <class... N>
    Dim3(N...);
};

struct Context {
    template <class T>
    T* scratch(int64_t);
    template <class Body>
    void parallel_for(int64_t, int64_t, Body&&);
    int64_t pieces(int64_t, int64_t);
    int64_t threads();
    void* stream();
    int64_t cuda_device();
};

template <auto kernel, class... A>
void launch(Context&, const Dim3&, const Dim3&, int64_t, const A&...);
int64_t blocks_for(int64_t, int64_t);
template <class T>
struct CopiedToHost : HostView<T> {};
template <class T>
CopiedToHost<T> copy_to_host(Context&, const T*, int64_t);
template <class T>
void copy_to_device(Context&, const T*, int64_t, T*);
template <class T>
void set_zero(Context&, T*, int64_t);

}  // namespace opbridge
