"""
Messages that compiled code begins and ends, without Python: a thread of a run that has
nothing to do looks at them, and so does the thread of messages now and then.
"""

from __future__ import annotations

from penstock.runtime.core import message_table as m
from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    address_of,
    arrays_at,
    call_1,
    call_3,
    compiled,
    load_acquire,
    peek,
    poke,
    replace,
    store_release,
)
from penstock.runtime.core.message_table import MessageTable
from penstock.runtime.core.os_calls import pause
from penstock.runtime.core.state import signal_event, stop
from penstock.runtime.core.state_layout import State

messages_at = arrays_at(MessageTable)


@compiled()
def limit_of(state: State, messages: MessageTable, channel: Integer) -> int:
    """The number of messages that a channel may have begun so far."""
    channels, limits = messages.channels, messages.limits
    made = peek(channels, channel + m.REPETITIONS) * state.control[w.TARGET]
    on_way = peek(channels, channel + m.ENDED) + peek(channels, channel + m.PLACES)
    limit = min(made, on_way)
    row = peek(channels, channel + m.LIMITS)
    while row < peek(channels, channel + m.LAST_LIMIT):
        counter = load_acquire(state.counters, peek(limits, row + m.COUNTER))
        more = peek(limits, row + m.MORE)
        limit = min(limit, counter * peek(limits, row + m.FACTOR) + more)
        row += m.LIMIT_WORDS
    return limit


@compiled()
def request_of(messages: MessageTable, channel: Integer, number: Integer) -> int:
    """The address of the request of a message of a channel."""
    channels = messages.channels
    place = number % peek(channels, channel + m.PLACES)
    return peek(messages.requests, peek(channels, channel + m.REQUESTS) + place)


@compiled()
def has_failed(messages: MessageTable, code: Integer) -> bool:
    """Whether a function of the library has, by the C `int` that it returns."""
    failure = int(code) & w.HALF
    if failure != 0:
        messages.head[m.FAILURE] = failure
    return failure != 0


@compiled(inline=False)
def move_channel(state: State, messages: MessageTable, channel: Integer) -> int:
    """
    Begin and end what can be of a channel: the number of messages that have ended, or
    -1 if the library has failed.
    """
    head, channels = messages.head, messages.channels
    begun = peek(channels, channel + m.BEGUN)
    ended = before = peek(channels, channel + m.ENDED)
    limit = limit_of(state, messages, channel)
    while begun < limit:
        request = request_of(messages, channel, begun)
        if has_failed(messages, call_1(head[m.START], request)):
            return -1
        begun += 1
    poke(channels, channel + m.BEGUN, begun)
    flag = address_of(head, m.FLAG)
    while ended < begun:
        request = request_of(messages, channel, ended)
        code = call_3(head[m.TEST], request, flag, head[m.STATUS])
        if has_failed(messages, code):
            return -1
        # Written by the call.
        if load_acquire(head, m.FLAG) & w.HALF == 0:
            break
        ended += 1
        poke(channels, channel + m.ENDED, ended)
        done = peek(channels, channel + m.DONE)
        store_release(state.counters, done, ended)
    return ended - before


@compiled(inline=False)
def move_messages(state: State) -> bool:
    """
    Begin and end what can be, unless another thread does; whether a message has ended.
    """
    address = state.control[w.MESSAGES]
    if address == 0:
        return False
    messages = messages_at(address)
    head = messages.head
    if head[m.LOCKED] != 0 or not replace(head, m.LOCKED, 0, 1):
        return False
    count = 0
    for channel in range(0, messages.channels.size, m.CHANNEL_WORDS):
        moved = move_channel(state, messages, channel)
        if moved < 0:
            # It stays locked, as no message can be moved any more.
            stop(state, w.INTERRUPTED)
            return False
        count += moved
    store_release(head, m.LOCKED, 0)
    if count > 0:
        signal_event(state)
    return count > 0


@compiled(inline=False)
def close_messages(state: State) -> None:
    """Let no thread look at messages any more, from when this returns."""
    head = messages_at(state.control[w.MESSAGES]).head
    while head[m.FAILURE] == 0 and not replace(head, m.LOCKED, 0, 1):
        pause()
