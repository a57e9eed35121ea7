"""What each function takes and gives, by the names of its overloads.

Upstream: the declarations of ``cel-go`` and of ``k8s.io/apiserver/pkg/cel/library``, without those
about named formats and authorization.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from arranger.cel.types import Type, parse_type

#: ``overload: function(arguments) -> result``; a dot before the function says that the first
#: argument is written before it. Letters alone stand for any type.
_TABLE: Final = """
logical_not: !_(bool) -> bool
negate_double: -_(double) -> double
negate_int64: -_(int) -> int
not_strictly_false: @not_strictly_false(bool) -> bool
list_int_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(int)) -> list(T)
list_uint_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(uint)) -> list(T)
list_double_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(double)) -> list(T)
list_bool_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(bool)) -> list(T)
list_string_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(string)) -> list(T)
list_bytes_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(bytes)) -> list(T)
not_equals: _!=_(A,A) -> bool
modulo_int64: _%_(int,int) -> int
modulo_uint64: _%_(uint,uint) -> uint
multiply_double: _*_(double,double) -> double
multiply_int64: _*_(int,int) -> int
multiply_uint64: _*_(uint,uint) -> uint
add_bytes: _+_(bytes,bytes) -> bytes
add_double: _+_(double,double) -> double
add_int64: _+_(int,int) -> int
add_list: _+_(list(A),list(A)) -> list(A)
add_string: _+_(string,string) -> string
add_uint64: _+_(uint,uint) -> uint
subtract_double: _-_(double,double) -> double
subtract_int64: _-_(int,int) -> int
subtract_uint64: _-_(uint,uint) -> uint
divide_double: _/_(double,double) -> double
divide_int64: _/_(int,int) -> int
divide_uint64: _/_(uint,uint) -> uint
less_equals_bool: _<=_(bool,bool) -> bool
less_equals_int64: _<=_(int,int) -> bool
less_equals_int64_double: _<=_(int,double) -> bool
less_equals_int64_uint64: _<=_(int,uint) -> bool
less_equals_uint64: _<=_(uint,uint) -> bool
less_equals_uint64_double: _<=_(uint,double) -> bool
less_equals_uint64_int64: _<=_(uint,int) -> bool
less_equals_double: _<=_(double,double) -> bool
less_equals_double_int64: _<=_(double,int) -> bool
less_equals_double_uint64: _<=_(double,uint) -> bool
less_equals_string: _<=_(string,string) -> bool
less_equals_bytes: _<=_(bytes,bytes) -> bool
less_bool: _<_(bool,bool) -> bool
less_int64: _<_(int,int) -> bool
less_int64_double: _<_(int,double) -> bool
less_int64_uint64: _<_(int,uint) -> bool
less_uint64: _<_(uint,uint) -> bool
less_uint64_double: _<_(uint,double) -> bool
less_uint64_int64: _<_(uint,int) -> bool
less_double: _<_(double,double) -> bool
less_double_int64: _<_(double,int) -> bool
less_double_uint64: _<_(double,uint) -> bool
less_string: _<_(string,string) -> bool
less_bytes: _<_(bytes,bytes) -> bool
equals: _==_(A,A) -> bool
greater_equals_bool: _>=_(bool,bool) -> bool
greater_equals_int64: _>=_(int,int) -> bool
greater_equals_int64_double: _>=_(int,double) -> bool
greater_equals_int64_uint64: _>=_(int,uint) -> bool
greater_equals_uint64: _>=_(uint,uint) -> bool
greater_equals_uint64_double: _>=_(uint,double) -> bool
greater_equals_uint64_int64: _>=_(uint,int) -> bool
greater_equals_double: _>=_(double,double) -> bool
greater_equals_double_int64: _>=_(double,int) -> bool
greater_equals_double_uint64: _>=_(double,uint) -> bool
greater_equals_string: _>=_(string,string) -> bool
greater_equals_bytes: _>=_(bytes,bytes) -> bool
greater_bool: _>_(bool,bool) -> bool
greater_int64: _>_(int,int) -> bool
greater_int64_double: _>_(int,double) -> bool
greater_int64_uint64: _>_(int,uint) -> bool
greater_uint64: _>_(uint,uint) -> bool
greater_uint64_double: _>_(uint,double) -> bool
greater_uint64_int64: _>_(uint,int) -> bool
greater_double: _>_(double,double) -> bool
greater_double_int64: _>_(double,int) -> bool
greater_double_uint64: _>_(double,uint) -> bool
greater_string: _>_(string,string) -> bool
greater_bytes: _>_(bytes,bytes) -> bool
list_optindex_optional_int: _[?_](list(V),int) -> optional_type(V)
optional_list_optindex_optional_int: _[?_](optional_type(list(V)),int) -> optional_type(V)
map_optindex_optional_value: _[?_](map(K, V),K) -> optional_type(V)
optional_map_optindex_optional_value: _[?_](optional_type(map(K, V)),K) -> optional_type(V)
index_list: _[_](list(A),int) -> A
index_map: _[_](map(A, B),A) -> B
optional_list_index_int: _[_](optional_type(list(V)),int) -> optional_type(V)
optional_map_index_value: _[_](optional_type(map(K, V)),K) -> optional_type(V)
in_list: _in_(A,list(A)) -> bool
in_map: _in_(A,map(A, B)) -> bool
quantity_add: .add(kubernetes.Quantity,kubernetes.Quantity) -> kubernetes.Quantity
quantity_add_int: .add(kubernetes.Quantity,int) -> kubernetes.Quantity
quantity_get_float: .asApproximateFloat(kubernetes.Quantity) -> double
quantity_get_int: .asInteger(kubernetes.Quantity) -> int
bool_to_bool: bool(bool) -> bool
string_to_bool: bool(string) -> bool
bytes_to_bytes: bytes(bytes) -> bytes
string_to_bytes: bytes(string) -> bytes
@mapInsert_map_key_value: cel.@mapInsert(map(K, V),K,V) -> map(K, V)
@mapInsert_map_map: cel.@mapInsert(map(K, V),map(K, V)) -> map(K, V)
string_char_at_int: .charAt(string,int) -> string
quantity_compare_to: .compareTo(kubernetes.Quantity,kubernetes.Quantity) -> int
semver_compare_to: .compareTo(kubernetes.Semver,kubernetes.Semver) -> int
contains_string: .contains(string,string) -> bool
list_distinct: .distinct(list(T)) -> list(T)
double_to_double: double(double) -> double
int64_to_double: double(int) -> double
string_to_double: double(string) -> double
uint64_to_double: double(uint) -> double
to_dyn: dyn(A) -> dyn
ends_with_string: .endsWith(string,string) -> bool
string_find_string: .find(string,string) -> string
string_find_all_string: .findAll(string,string) -> list(string)
string_find_all_string_int: .findAll(string,string,int) -> list(string)
list_first: .first(list(V)) -> optional_type(V)
list_flatten: .flatten(list(list(T))) -> list(T)
list_flatten_int: .flatten(list(dyn),int) -> list(dyn)
optional_hasValue: .hasValue(optional_type(V)) -> bool
list_a_index_of_int: .indexOf(list(A),A) -> int
string_index_of_string: .indexOf(string,string) -> int
string_index_of_string_int: .indexOf(string,string,int) -> int
int64_to_int64: int(int) -> int
double_to_int64: int(double) -> int
string_to_int64: int(string) -> int
uint64_to_int64: int(uint) -> int
quantity_is_greater_than: .isGreaterThan(kubernetes.Quantity,kubernetes.Quantity) -> bool
semver_is_greater_than: .isGreaterThan(kubernetes.Semver,kubernetes.Semver) -> bool
quantity_is_integer: .isInteger(kubernetes.Quantity) -> bool
quantity_is_less_than: .isLessThan(kubernetes.Quantity,kubernetes.Quantity) -> bool
semver_is_less_than: .isLessThan(kubernetes.Semver,kubernetes.Semver) -> bool
is_quantity_string: isQuantity(string) -> bool
is_semver_string: isSemver(string) -> bool
is_semver_string_bool: isSemver(string,bool) -> bool
list_int_is_sorted_bool: .isSorted(list(int)) -> bool
list_uint_is_sorted_bool: .isSorted(list(uint)) -> bool
list_double_is_sorted_bool: .isSorted(list(double)) -> bool
list_bool_is_sorted_bool: .isSorted(list(bool)) -> bool
list_string_is_sorted_bool: .isSorted(list(string)) -> bool
list_bytes_is_sorted_bool: .isSorted(list(bytes)) -> bool
list_join: .join(list(string)) -> string
list_join_string: .join(list(string),string) -> string
list_last: .last(list(V)) -> optional_type(V)
list_a_last_index_of_int: .lastIndexOf(list(A),A) -> int
string_last_index_of_string: .lastIndexOf(string,string) -> int
string_last_index_of_string_int: .lastIndexOf(string,string,int) -> int
lists_range: lists.range(int) -> list(int)
string_lower_ascii: .lowerAscii(string) -> string
semver_major: .major(kubernetes.Semver) -> int
matches: matches(string,string) -> bool
matches_string: .matches(string,string) -> bool
list_int_max_int: .max(list(int)) -> int
list_uint_max_uint: .max(list(uint)) -> uint
list_double_max_double: .max(list(double)) -> double
list_bool_max_bool: .max(list(bool)) -> bool
list_string_max_string: .max(list(string)) -> string
list_bytes_max_bytes: .max(list(bytes)) -> bytes
list_int_min_int: .min(list(int)) -> int
list_uint_min_uint: .min(list(uint)) -> uint
list_double_min_double: .min(list(double)) -> double
list_bool_min_bool: .min(list(bool)) -> bool
list_string_min_string: .min(list(string)) -> string
list_bytes_min_bytes: .min(list(bytes)) -> bytes
semver_minor: .minor(kubernetes.Semver) -> int
optional_none: optional.none() -> optional_type(V)
optional_of: optional.of(V) -> optional_type(V)
optional_ofNonZeroValue: optional.ofNonZeroValue(V) -> optional_type(V)
optional_unwrap: optional.unwrap(list(optional_type(V))) -> list(V)
optional_or_optional: .or(optional_type(V),optional_type(V)) -> optional_type(V)
optional_orValue_value: .orValue(optional_type(V),V) -> V
semver_patch: .patch(kubernetes.Semver) -> int
string_to_quantity: quantity(string) -> kubernetes.Quantity
string_replace_string_string: .replace(string,string,string) -> string
string_replace_string_string_int: .replace(string,string,string,int) -> string
list_reverse: .reverse(list(T)) -> list(T)
string_to_semver: semver(string) -> kubernetes.Semver
string_bool_to_semver: semver(string,bool) -> kubernetes.Semver
list_sets_contains_list: sets.contains(list(T),list(T)) -> bool
list_sets_equivalent_list: sets.equivalent(list(T),list(T)) -> bool
list_sets_intersects_list: sets.intersects(list(T),list(T)) -> bool
quantity_sign: sign(kubernetes.Quantity) -> int
size_bytes: size(bytes) -> int
bytes_size: .size(bytes) -> int
size_list: size(list(A)) -> int
list_size: .size(list(A)) -> int
size_map: size(map(A, B)) -> int
map_size: .size(map(A, B)) -> int
size_string: size(string) -> int
string_size: .size(string) -> int
list_slice: .slice(list(T),int,int) -> list(T)
list_int_sort: .sort(list(int)) -> list(int)
list_uint_sort: .sort(list(uint)) -> list(uint)
list_double_sort: .sort(list(double)) -> list(double)
list_bool_sort: .sort(list(bool)) -> list(bool)
list_string_sort: .sort(list(string)) -> list(string)
list_bytes_sort: .sort(list(bytes)) -> list(bytes)
string_split_string: .split(string,string) -> list(string)
string_split_string_int: .split(string,string,int) -> list(string)
starts_with_string: .startsWith(string,string) -> bool
string_to_string: string(string) -> string
bool_to_string: string(bool) -> string
bytes_to_string: string(bytes) -> string
double_to_string: string(double) -> string
int64_to_string: string(int) -> string
uint64_to_string: string(uint) -> string
quantity_sub: .sub(kubernetes.Quantity,kubernetes.Quantity) -> kubernetes.Quantity
quantity_sub_int: .sub(kubernetes.Quantity,int) -> kubernetes.Quantity
string_substring_int: .substring(string,int) -> string
string_substring_int_int: .substring(string,int,int) -> string
list_int_sum_int: .sum(list(int)) -> int
list_uint_sum_uint: .sum(list(uint)) -> uint
list_double_sum_double: .sum(list(double)) -> double
string_trim: .trim(string) -> string
type: type(A) -> type(A)
uint64_to_uint64: uint(uint) -> uint
double_to_uint64: uint(double) -> uint
int64_to_uint64: uint(int) -> uint
string_to_uint64: uint(string) -> uint
optional_unwrapOpt: .unwrapOpt(list(optional_type(V))) -> list(V)
string_upper_ascii: .upperAscii(string) -> string
optional_value: .value(optional_type(V)) -> V
add_duration_duration: _+_(duration,duration) -> duration
add_duration_timestamp: _+_(duration,timestamp) -> timestamp
add_timestamp_duration: _+_(timestamp,duration) -> timestamp
subtract_duration_duration: _-_(duration,duration) -> duration
subtract_timestamp_duration: _-_(timestamp,duration) -> timestamp
subtract_timestamp_timestamp: _-_(timestamp,timestamp) -> duration
less_timestamp: _<_(timestamp,timestamp) -> bool
less_duration: _<_(duration,duration) -> bool
less_equals_timestamp: _<=_(timestamp,timestamp) -> bool
less_equals_duration: _<=_(duration,duration) -> bool
greater_timestamp: _>_(timestamp,timestamp) -> bool
greater_duration: _>_(duration,duration) -> bool
greater_equals_timestamp: _>=_(timestamp,timestamp) -> bool
greater_equals_duration: _>=_(duration,duration) -> bool
list_duration_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(duration)) -> list(T)
list_duration_is_sorted_bool: .isSorted(list(duration)) -> bool
list_duration_max_duration: .max(list(duration)) -> duration
list_duration_min_duration: .min(list(duration)) -> duration
list_duration_sort: .sort(list(duration)) -> list(duration)
list_timestamp_sortByAssociatedKeys: .@sortByAssociatedKeys(list(T),list(timestamp)) -> list(T)
list_timestamp_is_sorted_bool: .isSorted(list(timestamp)) -> bool
list_timestamp_max_timestamp: .max(list(timestamp)) -> timestamp
list_timestamp_min_timestamp: .min(list(timestamp)) -> timestamp
list_timestamp_sort: .sort(list(timestamp)) -> list(timestamp)
list_duration_sum_duration: .sum(list(duration)) -> duration
duration_to_duration: duration(duration) -> duration
int64_to_duration: duration(int) -> duration
string_to_duration: duration(string) -> duration
timestamp_to_timestamp: timestamp(timestamp) -> timestamp
int64_to_timestamp: timestamp(int) -> timestamp
string_to_timestamp: timestamp(string) -> timestamp
duration_to_int64: int(duration) -> int
timestamp_to_int64: int(timestamp) -> int
duration_to_string: string(duration) -> string
timestamp_to_string: string(timestamp) -> string
timestamp_to_year: .getFullYear(timestamp) -> int
timestamp_to_year_with_tz: .getFullYear(timestamp,string) -> int
timestamp_to_month: .getMonth(timestamp) -> int
timestamp_to_month_with_tz: .getMonth(timestamp,string) -> int
timestamp_to_day_of_year: .getDayOfYear(timestamp) -> int
timestamp_to_day_of_year_with_tz: .getDayOfYear(timestamp,string) -> int
timestamp_to_day_of_month: .getDayOfMonth(timestamp) -> int
timestamp_to_day_of_month_with_tz: .getDayOfMonth(timestamp,string) -> int
timestamp_to_day_of_month_1_based: .getDate(timestamp) -> int
timestamp_to_day_of_month_1_based_with_tz: .getDate(timestamp,string) -> int
timestamp_to_day_of_week: .getDayOfWeek(timestamp) -> int
timestamp_to_day_of_week_with_tz: .getDayOfWeek(timestamp,string) -> int
timestamp_to_hours: .getHours(timestamp) -> int
timestamp_to_hours_with_tz: .getHours(timestamp,string) -> int
duration_to_hours: .getHours(duration) -> int
timestamp_to_minutes: .getMinutes(timestamp) -> int
timestamp_to_minutes_with_tz: .getMinutes(timestamp,string) -> int
duration_to_minutes: .getMinutes(duration) -> int
timestamp_to_seconds: .getSeconds(timestamp) -> int
timestamp_to_seconds_tz: .getSeconds(timestamp,string) -> int
duration_to_seconds: .getSeconds(duration) -> int
timestamp_to_milliseconds: .getMilliseconds(timestamp) -> int
timestamp_to_milliseconds_with_tz: .getMilliseconds(timestamp,string) -> int
duration_to_milliseconds: .getMilliseconds(duration) -> int
string_to_ip: ip(string) -> net.IP
cidr_ip: .ip(net.CIDR) -> net.IP
is_ip: isIP(string) -> bool
ip_is_canonical: ip.isCanonical(string) -> bool
ip_family: .family(net.IP) -> int
ip_is_unspecified: .isUnspecified(net.IP) -> bool
ip_is_loopback: .isLoopback(net.IP) -> bool
ip_is_link_local_multicast: .isLinkLocalMulticast(net.IP) -> bool
ip_is_link_local_unicast: .isLinkLocalUnicast(net.IP) -> bool
ip_is_global_unicast: .isGlobalUnicast(net.IP) -> bool
ip_to_string: string(net.IP) -> string
string_to_cidr: cidr(string) -> net.CIDR
is_cidr: isCIDR(string) -> bool
cidr_contains_ip_string: .containsIP(net.CIDR,string) -> bool
cidr_contains_ip_ip: .containsIP(net.CIDR,net.IP) -> bool
cidr_contains_cidr_string: .containsCIDR(net.CIDR,string) -> bool
cidr_contains_cidr: .containsCIDR(net.CIDR,net.CIDR) -> bool
cidr_prefix_length: .prefixLength(net.CIDR) -> int
cidr_masked: .masked(net.CIDR) -> net.CIDR
cidr_to_string: string(net.CIDR) -> string
string_to_url: url(string) -> kubernetes.URL
is_url_string: isURL(string) -> bool
url_get_scheme: .getScheme(kubernetes.URL) -> string
url_get_host: .getHost(kubernetes.URL) -> string
url_get_hostname: .getHostname(kubernetes.URL) -> string
url_get_port: .getPort(kubernetes.URL) -> string
url_get_escaped_path: .getEscapedPath(kubernetes.URL) -> string
url_get_query: .getQuery(kubernetes.URL) -> map(string, list(string))
string_format: .format(string,list(dyn)) -> string
strings_quote: strings.quote(string) -> string
"""
_ROW: Final = re.compile(
    r"(?P<id>\S+): (?P<member>\.?)(?P<name>[^( ]+)\((?P<args>.*)\) -> (?P<result>.*)"
)


class Signature(NamedTuple):
    """One overload of a function."""

    id: str
    is_member: bool
    args: tuple[Type, ...]
    result: Type
    params: frozenset[Type]


def _split(args: str) -> list[str]:
    """The arguments, which commas separate outside of brackets."""
    parts, depth = [""], 0
    for sign in args:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part for part in parts if part]


def _parameters(given: Type) -> frozenset[Type]:
    if given.kind == "param":
        return frozenset([given])
    return frozenset().union(*map(_parameters, given.params))


def _read() -> Mapping[str, tuple[Signature, ...]]:
    found: dict[str, list[Signature]] = {}
    for line in _TABLE.strip().splitlines():
        row = _ROW.fullmatch(line)
        assert row is not None, line
        args = tuple(map(parse_type, _split(row["args"])))
        result = parse_type(row["result"])
        params = frozenset[Type]().union(*map(_parameters, (*args, result)))
        signature = Signature(row["id"], bool(row["member"]), args, result, params)
        found.setdefault(row["name"], []).append(signature)
    return {name: tuple(each) for name, each in found.items()}


#: By function; member functions and others of one name are in one list.
SIGNATURES: Final = _read()
