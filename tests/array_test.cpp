// Array: values that never see each other's writes, windows that do, views, creation, access and printing.
#include "windrow/array.h"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include "errors.h"
#include "windrow/error.h"

namespace wr {
namespace {

using detail::ArrayAccess;
using Floats = std::vector<float>;

Floats values(const Array& a) { return a.to_vector<float>(); }
bool share_memory(const Array& a, const Array& b) { return ArrayAccess::overlap(a, b); }

// Values.

TEST(Array, CopiesShareUntilOneIsWritten) {
  Array a = Array::from({1.f, 2.f, 3.f});
  Array b = a;
  EXPECT_TRUE(share_memory(a, b));
  b.at<float>({1}) = 9;
  EXPECT_FALSE(share_memory(a, b));
  EXPECT_EQ(values(a), Floats({1, 2, 3}));
  EXPECT_EQ(values(b), Floats({1, 9, 3}));
}

TEST(Array, EveryWayToWriteCopiesFirst) {
  const Array original = Array::from({1.f, 2.f, 3.f});
  Array a = original, b = original, c = original, d = original;
  a.fill(7);
  b.mutable_data<float>()[0] = 7;
  c.copy_from(Array::scalar(7.f));
  *static_cast<float*>(ArrayAccess::write(d, "test", Location::current())) = 7;
  EXPECT_EQ(values(original), Floats({1, 2, 3}));
  EXPECT_EQ(values(a), Floats({7, 7, 7}));
  EXPECT_EQ(values(b), Floats({7, 2, 3}));
  EXPECT_EQ(values(c), Floats({7, 7, 7}));
  EXPECT_EQ(values(d), Floats({7, 2, 3}));
}

TEST(Array, SoleOwnerWritesInPlace) {
  Array a = Array::zeros({4});
  const void* before = ArrayAccess::read(a);
  { Array copy = a; }
  a.fill(1);
  EXPECT_EQ(ArrayAccess::read(a), before);
  Array b = std::move(a);
  b.fill(2);
  EXPECT_EQ(ArrayAccess::read(b), before);
  EXPECT_EQ(a.count(), 0);  // NOLINT(bugprone-use-after-move): a moved-from array is empty
}

TEST(Array, WritingAViewLeavesItsSourceAlone) {
  const Array a = Array::arange(6).reshape({2, 3});
  Array row = a.slice(0, 1, 2);
  EXPECT_TRUE(share_memory(a, row));
  row.fill(0);
  EXPECT_EQ(values(a), Floats({0, 1, 2, 3, 4, 5}));
}

TEST(Array, WritingABroadcastViewWritesOneElement) {
  Array b = Array::from({1.f, 2.f}).broadcast_to({2, 2});  // sole owner, but each element stands for two
  b.at<float>({0, 0}) = 9;
  EXPECT_EQ(values(b), Floats({9, 2, 1, 2}));
}

TEST(Array, AssignmentToItselfAndFromItsOwnView) {
  Array a = Array::arange(4);
  a = *&a;
  a = a.slice(0, 1, 3);
  EXPECT_EQ(values(a), Floats({1, 2}));
}

// Windows.

TEST(ArrayWindow, SharesWritesBothWays) {
  Array a = Array::zeros({3, 2});
  Array w = a.window(0, 1, 3);
  EXPECT_TRUE(w.is_window());
  w.fill(5);
  EXPECT_EQ(values(a), Floats({0, 0, 5, 5, 5, 5}));
  a.at<float>({2, 1}) = 7;
  EXPECT_EQ(values(w), Floats({5, 5, 5, 7}));
}

TEST(ArrayWindow, EarlierCopiesDoNotSeeWrites) {
  Array a = Array::zeros({4});
  const Array copy = a;
  const Array view = a.slice(0, 0, 2);
  a.window(0, 0, 2).fill(1);
  EXPECT_EQ(values(a), Floats({1, 1, 0, 0}));
  EXPECT_EQ(values(copy), Floats({0, 0, 0, 0}));
  EXPECT_EQ(values(view), Floats({0, 0}));
}

TEST(ArrayWindow, LaterCopiesAreSnapshots) {
  Array a = Array::zeros({4});
  Array w = a.window();
  const Array copy = a, of_window = w, view = a.slice(0, 0, 2), shaped = a.reshape({2, 2}), same = w.contiguous();
  EXPECT_FALSE(of_window.is_window());
  w.fill(1);
  a.at<float>({0}) = 2;
  for (const Array* other : {&copy, &of_window, &shaped, &same}) EXPECT_EQ(values(*other), Floats({0, 0, 0, 0}));
  EXPECT_EQ(values(view), Floats({0, 0}));
  EXPECT_EQ(values(w), Floats({2, 1, 1, 1}));
}

TEST(ArrayWindow, MemoryStaysWhileAWindowLives) {
  Array a = Array::zeros({4});
  Array w = a.window();
  const void* address = ArrayAccess::read(a);
  const Array copy = a;
  a.fill(1);
  EXPECT_EQ(ArrayAccess::read(a), address);
  EXPECT_EQ(ArrayAccess::read(w), address);
}

TEST(ArrayWindow, OutlivesItsParentAndNests) {
  Array inner;
  {
    Array a = Array::arange(6);
    Array w = a.window(0, 2, 6);
    inner = w.window(0, 1, 3);
    inner.fill(0);
    EXPECT_EQ(values(a), Floats({0, 1, 2, 0, 0, 5}));
  }
  EXPECT_TRUE(inner.is_window());
  inner.fill(8);
  EXPECT_EQ(values(inner), Floats({8, 8}));
}

TEST(ArrayWindow, ParentIsAnOrdinaryValueAgainAfterwards) {
  Array a = Array::zeros({2});
  { Array w = a.window(); }
  Array b = a;
  EXPECT_TRUE(share_memory(a, b));
  b.fill(1);
  EXPECT_EQ(values(a), Floats({0, 0}));
}

TEST(ArrayWindow, AnyPartWithStrides) {
  Array a = Array::zeros({2, 3});
  a.window([](const Layout& all) {
     return all.transpose().slice(0, std::nullopt, std::nullopt, -2);
   }).copy_from(Array::from({{1.f, 2.f}, {3.f, 4.f}}));
  EXPECT_EQ(values(a), Floats({3, 0, 1, 4, 0, 2}));
  a.window([](const Layout& all) { return all.diagonal(); }).fill(9);
  EXPECT_EQ(values(a), Floats({9, 0, 1, 4, 9, 2}));
}

TEST(ArrayWindow, OfAViewIsAWindowOnTheView) {
  const Array a = Array::arange(6).reshape({2, 3});
  Array t = a.transpose();  // shares with a, so the window must not write there
  t.window(0, 1, 2).fill(0);
  EXPECT_EQ(values(t), Floats({0, 3, 0, 0, 2, 5}));
  EXPECT_EQ(values(a), Floats({0, 1, 2, 3, 4, 5}));
}

TEST(ArrayWindow, AssignmentRebindsAndCopyFromWrites) {
  Array a = Array::zeros({2});
  Array w = a.window();
  w.copy_from(Array::from({1.f, 2.f}));
  w = Array::from({8.f, 9.f});
  EXPECT_FALSE(w.is_window());
  EXPECT_EQ(values(a), Floats({1, 2}));
}

TEST(ArrayWindow, CopyFromOverlappingPartReadsFirst) {
  Array a = Array::arange(5);
  Array to = a.window(0, 1, 5);
  to.copy_from(a.window(0, 0, 4));
  EXPECT_EQ(values(a), Floats({0, 0, 1, 2, 3}));
  Array whole = a.window();
  whole.copy_from(a.window(0, std::nullopt, std::nullopt, -1));
  EXPECT_EQ(values(a), Floats({3, 2, 1, 0, 0}));
}

TEST(ArrayWindow, RefusesWhatCannotBeWritten) {
  Array a = Array::zeros({2, 3});
  EXPECT_ERROR(a.window(0, 0, 3), "window: 0:3:1 is outside axis 0 of size 2 in [2,3]");
  EXPECT_ERROR(a.window([](const Layout& all) {
    return all.broadcast_to({4, 2, 3});
  }),
               "window: [4,2,3] with strides [0,3,1] shows an element of [2,3] more than once");
  EXPECT_ERROR(a.window([](const Layout&) {
    return Layout{{7}, {1}, 0};
  }),
               "window: [7] with strides [1] reaches outside the memory of [2,3]");
  EXPECT_ERROR(a.window([](const Layout&) { return Layout{{2}, {-1}, 0}; }), "reaches outside");
}

TEST(ArrayWindow, IsADestination) {
  const auto write_two = [](Destination dst) { static_cast<Array&>(dst).fill(2); };
  Array a = Array::zeros({4});
  write_two(a.window(0, 0, 1));
  EXPECT_EQ(values(a), Floats({2, 0, 0, 0}));
  write_two(a);
  EXPECT_EQ(values(a), Floats({2, 2, 2, 2}));
  EXPECT_ERROR(write_two(a.slice(0, 0, 2)), "destination: a temporary [2] that is not a window");
}

TEST(ArrayBorrow, MutableMemoryIsAWindow) {
  float memory[] = {1, 2, 3};
  Array a = Array::borrow(memory, {3}, DType::f32);
  EXPECT_EQ(ArrayAccess::read(a), memory);
  Array copy = a;
  a.at<float>({0}) = 9;
  memory[2] = 8;
  EXPECT_EQ(memory[0], 9);
  EXPECT_EQ(values(a), Floats({9, 2, 8}));
  EXPECT_EQ(values(copy), Floats({1, 2, 3}));
}

TEST(ArrayBorrow, ConstMemoryIsNeverWritten) {
  const Floats memory = {1, 2, 3};
  Array a = Array::borrow(memory.data(), {3}, DType::f32), b = a;
  EXPECT_EQ(ArrayAccess::read(b), memory.data());
  b = Array();
  a.at<float>({0}) = 9;  // the only owner, and yet it must not write here
  a.window(0, 1, 2).fill(7);
  Array::borrow(memory.data(), {3}, DType::f32).window().fill(5);
  EXPECT_EQ(memory, Floats({1, 2, 3}));
  EXPECT_EQ(values(a), Floats({9, 7, 3}));
  EXPECT_ERROR(Array::borrow(static_cast<const void*>(nullptr), {3}, DType::f32), "borrow: the memory for [3]");
}

// Views.

TEST(ArrayView, SliceInBothDirections) {
  const Array a = Array::arange(6);
  const auto none = std::nullopt;
  EXPECT_EQ(values(a.slice(0, 1, 5, 2)), Floats({1, 3}));
  EXPECT_EQ(values(a.slice(0, 1, 6, 2)), Floats({1, 3, 5}));
  EXPECT_EQ(values(a.slice(0, -2, none)), Floats({4, 5}));
  EXPECT_EQ(values(a.slice(0, none, none, -1)), Floats({5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(values(a.slice(0, 4, 0, -2)), Floats({4, 2}));
  EXPECT_EQ(values(a.slice(0, none, none, -4)), Floats({5, 1}));
  EXPECT_EQ(values(a.slice(0, none, none, -1).slice(0, 1, 4).slice(0, none, none, -1)), Floats({2, 3, 4}));
  EXPECT_EQ(values(a.slice(0, none, none, std::numeric_limits<std::int64_t>::min())), Floats({5}));
  EXPECT_EQ(a.slice(0, 4, 2).shape(), Shape({0}));
  EXPECT_EQ(Array::zeros({0}).slice(0, none, none, -1).shape(), Shape({0}));
  EXPECT_ERROR(a.slice(0, 0, 7), "slice: 0:7:1 is outside axis 0 of size 6 in [6]");
  EXPECT_ERROR(a.slice(0, -7, none), "slice: -7::1 is outside axis 0 of size 6 in [6]");
  EXPECT_ERROR(a.slice(0, 6, none, -1), "slice: 6::-1 is outside axis 0");
  EXPECT_ERROR(a.slice(0, 0, 1, 0), "slice: step is 0 on axis 0 of [6]");
  EXPECT_ERROR(a.slice(1, 0, 1), "slice: axis 1 is out of range for [6] (1 axes)");
}

TEST(ArrayView, ReshapeIsAViewWhereStridesAllow) {
  const Array a = Array::arange(24).reshape({2, 3, 4});
  const auto view = [&](const Array& from, const Shape& to) { return share_memory(from, from.reshape(to)); };
  EXPECT_TRUE(view(a, {6, 4}));
  EXPECT_TRUE(view(a, {1, 24, 1, 1}));
  EXPECT_TRUE(view(a.slice(2, 0, 4, 2), {6, 2}));
  EXPECT_TRUE(view(a.slice(0, std::nullopt, std::nullopt, -1), {2, 12}));
  EXPECT_TRUE(view(a.permute({2, 0, 1}), {2, 2, 6}));
  EXPECT_FALSE(view(a.permute({2, 0, 1}), {8, 3}));
  EXPECT_FALSE(view(a.slice(2, 0, 3), {18}));
  EXPECT_TRUE(view(a.slice(2, 0, 1), {2, 1, 3}));
  EXPECT_TRUE(view(a.select(0, 1).select(0, 1).select(0, 1), {1, 1}));
}

TEST(ArrayView, ReshapeKeepsTheOrderOfRandomViews) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 2000; ++trial) {
    const Shape shape = {1 + pick(3), 1 + pick(4), 1 + pick(4), 1 + pick(3)};
    Array a = Array::arange(static_cast<double>(shape.count())).reshape(shape);
    for (int i = pick(4); i > 0; --i) {
      const int axis = pick(4);
      if (pick(2)) a = a.transpose(axis, pick(4));
      const int begin = pick(static_cast<int>(a.shape()[axis]));
      if (pick(2)) a = a.slice(axis, begin, std::nullopt, 1 + pick(2));
      if (pick(2)) a = a.slice(axis, std::nullopt, std::nullopt, -1);
      if (pick(6) == 0) a = a.slice(axis, 0, 1).broadcast_to(a.shape());
    }
    Shape target;
    std::int64_t rest = a.count();
    while (rest > 1) {
      std::int64_t factor = 1 + pick(static_cast<int>(rest));
      while (rest % factor) --factor;
      if (target.rank() == 6) factor = rest;
      target.push_back(factor);
      rest /= factor;
    }
    if (pick(2)) target.push_back(1);
    EXPECT_EQ(values(a.reshape(target)), values(a)) << to_string(a) << to_string(target);
  }
}

TEST(ArrayView, ReshapeErrorsNameTheSizes) {
  const Array a = Array::zeros({2, 3});
  EXPECT_ERROR(a.reshape({4, 2}), "reshape: cannot view [2,3] (6 elements) as [4,2] (8 elements)");
  EXPECT_ERROR(a.reshape({4, -1}), "reshape: cannot view [2,3] (6 elements) as [4,-1]: no size fits -1");
  EXPECT_ERROR(a.reshape({-1, -1}), "reshape: cannot view [2,3] (6 elements) as [-1,-1]: only one size may be -1");
  EXPECT_ERROR(a.reshape({-2, -3}), "reshape: size -2 of axis 0 in [-2,-3] is negative");
  EXPECT_EQ(a.reshape({-1, 2}).shape(), Shape({3, 2}));
  EXPECT_EQ(Array::zeros({0, 3}).reshape({3, -1}).shape(), Shape({3, 0}));
}

TEST(ArrayView, AxesMove) {
  const Array a = Array::arange(6).reshape({1, 2, 3});
  EXPECT_EQ(a.permute({2, 0, -2}).shape(), Shape({3, 1, 2}));
  EXPECT_EQ(values(a.permute({2, 0, 1})), Floats({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(a.transpose().shape(), Shape({3, 2, 1}));
  EXPECT_EQ(values(a.transpose(-1, 1)), Floats({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(a.squeeze().shape(), Shape({2, 3}));
  EXPECT_EQ(a.squeeze(0).expand_dims(-1).shape(), Shape({2, 3, 1}));
  EXPECT_EQ(a.expand_dims(0).shape(), Shape({1, 1, 2, 3}));
  EXPECT_EQ(values(a.select(2, -1)), Floats({2, 5}));
  EXPECT_EQ(a.flatten().shape(), Shape({6}));
  EXPECT_ERROR(a.permute({0, 1}), "permute: [0,1] names 2 axes, [1,2,3] has 3");
  EXPECT_ERROR(a.permute({0, 1, 1}), "permute: axis 1 appears twice in [0,1,1]");
  EXPECT_ERROR(a.permute({0, 1, std::int64_t{1} << 32}), "permute: axis 1000 is out of range");
  EXPECT_ERROR(a.squeeze(1), "squeeze: axis 1 of [1,2,3] has size 2, not 1");
  EXPECT_ERROR(a.expand_dims(5), "expand_dims: axis 5 is out of range for [1,2,3] (3 axes)");
  EXPECT_ERROR(Array::zeros({1, 1, 1, 1, 1, 1, 1, 1}).expand_dims(0), "has 8 axes, the most there may be");
  EXPECT_ERROR(a.select(1, 2), "select: index 2 is out of range for axis 1 of size 2 in [1,2,3]");
}

TEST(ArrayView, BroadcastAndDiagonal) {
  const Array a = Array::from({{1.f}, {2.f}});
  EXPECT_EQ(values(a.broadcast_to({2, 2, 3})), Floats({1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_FALSE(a.broadcast_to({2, 3}).is_contiguous());
  EXPECT_EQ(values(Array::arange(12).reshape({3, 4}).diagonal()), Floats({0, 5, 10}));
  const Array cube = Array::arange(8).reshape({2, 2, 2});
  EXPECT_EQ(values(cube.diagonal(0, 2)), Floats({0, 5, 2, 7}));
  EXPECT_ERROR(a.broadcast_to({3, 3}), "broadcast_to: cannot broadcast [2,1] to [3,3]: axis 0 has size 2, not 1 or 3");
  EXPECT_ERROR(a.broadcast_to({2}), "broadcast_to: cannot broadcast [2,1] to [2]: it has fewer axes");
  EXPECT_ERROR(a.diagonal(0, -2), "diagonal: axis 0 of [2,1] is given twice");
}

TEST(ArrayView, OverlapIsByTheMemoryReached) {
  const Array a = Array::arange(10);
  const Array front = a.slice(0, 0, 5), back = a.slice(0, std::nullopt, 4, -1), middle = a.slice(0, 4, 6);
  EXPECT_FALSE(ArrayAccess::overlap(front, back));
  EXPECT_TRUE(ArrayAccess::overlap(front, middle));
  EXPECT_TRUE(ArrayAccess::overlap(back, middle));
  EXPECT_FALSE(ArrayAccess::overlap(a, a.slice(0, 2, 2)));
  EXPECT_TRUE(ArrayAccess::same_elements(a, a.expand_dims(0).select(0, 0)));
  EXPECT_FALSE(ArrayAccess::same_elements(a.reshape({2, 5}), a.reshape({5, 2})));
  EXPECT_FALSE(ArrayAccess::same_elements(Array::eye(2), Array::eye(2)));
  const Array square = a.slice(0, 0, 9).reshape({3, 3});
  EXPECT_FALSE(ArrayAccess::same_elements(square, square.transpose()));
}

// Creation.

TEST(ArrayCreate, Values) {
  EXPECT_EQ(values(Array::zeros({2})), Floats({0, 0}));
  EXPECT_EQ(Array::ones({2}, DType::i32).to_vector<int>(), std::vector<int>({1, 1}));
  EXPECT_EQ(Array::full({2}, 2.5, DType::f64).to_vector<double>(), std::vector<double>({2.5, 2.5}));
  EXPECT_EQ(values(Array::arange(1, 2, 0.25)), Floats({1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(Array::arange(3, 0, -1, DType::i32).to_vector<int>(), std::vector<int>({3, 2, 1}));
  EXPECT_EQ(Array::arange(-2).count(), 0);
  EXPECT_EQ(values(Array::linspace(0, 1, 5)), Floats({0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(values(Array::linspace(3, 9, 1)), Floats({3}));
  EXPECT_EQ(values(Array::eye(2)), Floats({1, 0, 0, 1}));
  EXPECT_EQ(Array::scalar(2).dtype(), DType::i32);
  EXPECT_EQ(Array::scalar(2.0).item<double>(), 2);
  EXPECT_EQ(Array::from({{1, 2, 3}, {4, 5, 6}}).shape(), Shape({2, 3}));
  EXPECT_EQ(Array::from({true, false}).to_vector<bool>(), std::vector<bool>({true, false}));
  EXPECT_EQ(Array::from({{true}, {false}}).to_vector<bool>(), std::vector<bool>({true, false}));
  EXPECT_EQ(Array::from(Floats{1, 2, 3, 4}, {2, 2}).at<float>({1, 0}), 3);
  EXPECT_EQ(Array().count(), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Array::zeros({3}).data<float>()) % 64, 0u);
  EXPECT_ERROR(Array::from({{1, 2}, {3}}), "from: row 1 has 1 values, row 0 has 2");
  EXPECT_ERROR(Array::from(Floats{1, 2, 3}, {2, 2}), "from: 3 values do not fill [2,2] (4 elements)");
  EXPECT_ERROR(Array::arange(0, 1, 0), "arange: no finite number of steps");
}

TEST(ArrayCreate, SizesAreCheckedBeforeAllocation) {
  const std::int64_t big = std::int64_t{1} << 32;
  EXPECT_ERROR(Array::zeros({3, -2}), "zeros: size -2 of axis 1 in [3,-2] is negative");
  EXPECT_ERROR(Array::empty({big, big}), "empty: the number of elements of [4294967296,4294967296] overflows");
  EXPECT_ERROR(Array::empty({0, big, big}), "overflows");
  EXPECT_ERROR(Array::ones({big, 65536}), "ones: [4294967296,65536] of f32 is larger than 64 TiB");
  EXPECT_ERROR(Array::eye(-1), "eye: size -1 of axis 0 in [-1,-1] is negative");
  EXPECT_ERROR(Array::ones({1}).broadcast_to({big, big}), "broadcast_to: the number of elements");
  EXPECT_ERROR(Array::ones({1}).broadcast_to({big, 65536}).clone(), "clone: [4294967296,65536] of f32 is larger");
  EXPECT_ERROR(Array::linspace(0, 1, -1), "array_test.cpp:");
}

TEST(ArrayCreate, NoElements) {
  Array a = Array::zeros({0, 3});
  a.fill(1);
  Array b = a, w = a.window();
  w.copy_from(Array::ones({1}));
  EXPECT_TRUE(a.is_contiguous());
  EXPECT_TRUE(identical(a, b.clone()));
  EXPECT_TRUE(values(a.astype(DType::f64).astype(DType::f32).transpose()).empty());
  EXPECT_EQ(a.data<float>(), nullptr);
}

// Access.

TEST(ArrayAccess, ErrorsNameTypeIndexAndSize) {
  Array a = Array::zeros({2, 3});
  EXPECT_ERROR(a.data<double>(), "data: asked for f64, the array [2,3] is f32");
  EXPECT_ERROR(a.at<int>({0, 0}), "at: asked for i32, the array [2,3] is f32");
  EXPECT_ERROR(a.transpose().data<float>(), "data: [3,2] is not contiguous (strides [1,3])");
  EXPECT_ERROR(a.transpose().mutable_data<float>(), "mutable_data: [3,2] is not contiguous");
  EXPECT_ERROR(a.at<float>({1, 3}), "at: index 3 is out of range for axis 1 of size 3 in [2,3]");
  EXPECT_ERROR(a.at<float>({-3, 0}), "at: index -3 is out of range for axis 0 of size 2 in [2,3]");
  EXPECT_ERROR(a.at<float>({1}), "at: [1] has 1 indices, [2,3] has 2 axes");
  EXPECT_ERROR(a.item<float>(), "item: [2,3] has 6 elements, not one");
  EXPECT_ERROR(a.size(2), "size: axis 2 is out of range for [2,3] (2 axes)");
  EXPECT_ERROR(a.copy_from(Array::zeros({2})), "copy_from: cannot broadcast [2] to [2,3]");
  const std::string error = error_of([&] { a.item<float>(); });
  EXPECT_EQ(error, "array_test.cpp:" + std::to_string(__LINE__ - 1) + ": item: [2,3] has 6 elements, not one");
}

TEST(ArrayAccess, AtFollowsStrides) {
  Array a = Array::arange(6).reshape({2, 3}).slice(1, std::nullopt, std::nullopt, -1);
  EXPECT_EQ(a.at<float>({1, 0}), 5);
  EXPECT_EQ(std::as_const(a).at<float>({-1, -1}), 3);
  a.at<float>({0, 2}) = 9;
  EXPECT_EQ(values(a), Floats({2, 1, 9, 5, 4, 3}));
  EXPECT_TRUE(a.contiguous().is_contiguous());
  EXPECT_EQ(values(a.contiguous()), values(a));
}

TEST(ArrayAccess, AstypeCutsAndSaturates) {
  const double inf = INFINITY, nan = NAN;
  const Array a = Array::from({-1.9, 2.9, 300.0, -3e9, 3e9, inf, nan});
  EXPECT_EQ(a.astype(DType::i32).to_vector<int>(), std::vector<int>({-1, 2, 300, INT_MIN, INT_MAX, INT_MAX, 0}));
  EXPECT_EQ(a.astype(DType::u8).to_vector<std::uint8_t>(), std::vector<std::uint8_t>({0, 2, 255, 0, 255, 255, 0}));
  EXPECT_EQ(Array::from({0.5f, 0.f, -0.f, NAN}).astype(DType::boolean).to_vector<bool>(),
            std::vector<bool>({true, false, false, true}));
  EXPECT_EQ(Array::from({true, false}).astype(DType::f32).to_vector<float>(), Floats({1, 0}));
  const Array transposed = Array::arange(6, DType::i32).reshape({2, 3}).transpose();
  EXPECT_EQ(transposed.astype(DType::f32).to_vector<float>(), Floats({0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(share_memory(transposed, transposed.astype(DType::i32)));
}

TEST(ArrayAccess, IdenticalIsBitwise) {
  const Array a = Array::from({{1.f, NAN}, {0.f, 4.f}});
  EXPECT_TRUE(identical(a, a.transpose().clone().transpose()));
  EXPECT_FALSE(identical(a, a.transpose()));
  EXPECT_FALSE(identical(Array::from({0.f}), Array::from({-0.f})));
  EXPECT_FALSE(identical(Array::zeros({1}), Array::zeros({1}, DType::i32)));
  EXPECT_FALSE(identical(Array::zeros({1}), Array::zeros({1, 1})));
}

TEST(ArrayAccess, Allclose) {
  const float inf = INFINITY;
  EXPECT_TRUE(allclose(Array::from({1.f, inf}), Array::from({1.000001f, inf})));
  EXPECT_FALSE(allclose(Array::from({1.f}), Array::from({1.01f})));
  EXPECT_TRUE(allclose(Array::from({1.f}), Array::from({1.01f}), 0, 0.02));
  EXPECT_TRUE(allclose(Array::from({100.f}), Array::from({101.f}), 0.01, 0));
  EXPECT_FALSE(allclose(Array::from({inf}), Array::from({-inf})));
  EXPECT_FALSE(allclose(Array::from({1.f}), Array::from({inf})));
  EXPECT_FALSE(allclose(Array::from({NAN}), Array::from({NAN})));
  EXPECT_TRUE(allclose(Array::from({1, 2}), Array::from({1.0, 2.0})));
  EXPECT_ERROR(allclose(Array::zeros({2}), Array::zeros({3})), "allclose: shapes differ: [2] and [3]");
}

TEST(ArrayPrint, AlignsColumns) {
  EXPECT_EQ(to_string(Array::from({{1.f, -2.25f}, {10.f, 0.5f}})), "[[ 1.00, -2.25],\n [10.00,  0.50]] f32[2,2]");
  EXPECT_EQ(to_string(Array::from({1.f, 2.f})), "[1., 2.] f32[2]");
  EXPECT_EQ(to_string(Array::from({{1, -20}, {300, 4}})), "[[  1, -20],\n [300,   4]] i32[2,2]");
  EXPECT_EQ(to_string(Array::scalar(0.1f)), "0.1 f32[]");
  EXPECT_EQ(to_string(Array::from({1e-5, 2e10})), "[1.e-05, 2.e+10] f64[2]");
  EXPECT_EQ(to_string(Array::from({1.f / 3, NAN, -INFINITY})), "[0.333333,      nan,     -inf] f32[3]");
  EXPECT_EQ(to_string(Array::from({true, false})), "[ true, false] bool[2]");
  EXPECT_EQ(to_string(Array::zeros({2, 1, 2})), "[[[0., 0.]],\n\n [[0., 0.]]] f32[2,1,2]");
  EXPECT_EQ(to_string(Array::zeros({0, 3})), "[] f32[0,3]");
  EXPECT_EQ(to_string(Array::arange(4).reshape({2, 2}).transpose()), "[[0., 2.],\n [1., 3.]] f32[2,2]");
}

TEST(ArrayPrint, SummarisesLargeArrays) {
  EXPECT_EQ(to_string(Array::arange(2000, DType::i32)), "[   0,    1,    2, ..., 1997, 1998, 1999] i32[2000]");
  EXPECT_EQ(to_string(Array::arange(2000, DType::i32).reshape({1000, 2})),
            "[[   0,    1],\n [   2,    3],\n [   4,    5],\n ...,\n [1994, 1995],\n [1996, 1997],\n [1998, 1999]] "
            "i32[1000,2]");
}

TEST(ArrayThreads, CopiesInManyThreadsStayApart) {
  const Array shared = Array::zeros({1000});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        Array mine = shared, view = mine.slice(0, 0, 500, 2);
        mine.fill(t + 1);
        Array twin = mine;
        twin.window(0, 0, 10).fill(9);
        wrong[t] += mine.at<float>({0}) != static_cast<float>(t + 1) || view.at<float>({7}) != 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
  EXPECT_EQ(values(shared), Floats(1000, 0.f));
}

TEST(ArrayThreads, WindowsOfOneArrayAreWrittenTogether) {
  Array a = Array::zeros({4, 100});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, part = a.window(0, t, t + 1)]() mutable {
      for (int i = 0; i < 100; ++i) part.at<float>({0, i}) = static_cast<float>(t);
    });
  }
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(values(a.select(0, t)), Floats(100, static_cast<float>(t)));
}

}  // namespace
}  // namespace wr
