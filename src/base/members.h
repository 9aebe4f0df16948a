// The members of a struct, one after the other: for code that must visit every one of them, such as hashing and the wire format between
// ranks.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>

// Write it after the struct, in its namespace; for private members, inside the class. It lists all members in order: with one too few or
// too many the structured binding does not compile, so a new member cannot be forgotten.
#define DCP_MEMBERS(T, ...) DCP_MEMBERS_OF(, T, __VA_ARGS__)
#define DCP_FRIEND_MEMBERS(T, ...) DCP_MEMBERS_OF(friend, T, __VA_ARGS__)

#define DCP_MEMBERS_OF(FRIEND, T, ...)               \
  template <class X>                                 \
    requires std::same_as<std::remove_const_t<X>, T> \
  FRIEND constexpr auto members(X& x) {              \
    auto& [__VA_ARGS__] = x;                         \
    return std::tie(__VA_ARGS__);                    \
  }                                                  \
  static_assert(true)

namespace dcp {

template <class T>
concept HasMembers = requires(T& x) { members(x); };

// Calls fn(member) for each, in order.
template <HasMembers T, class Fn>
constexpr void for_each_member(T& x, const Fn& fn) {
  std::apply([&](auto&... each) { (fn(each), ...); }, members(x));
}

}  // namespace dcp
