// Package task runs blocking, straight-line code at the cost of an event loop.
//
// The pieces, from the outside in:
//
//  1. A connection reader works in turns. Each turn it hands the bytes that
//     arrived to a parser, which makes things ready: it calls [Waker.Wake] on
//     whoever waits for them. Waking only enqueues, on the [Batch] of the turn.
//  2. At the end of the turn [Batch.Run] resumes everything that became ready,
//     on the reader's own goroutine, and then flushes every connection that was
//     written to, once. No thread is woken and no write is made per frame.
//  3. What is resumed is a [Task]: a coroutine in which a [Routine] reads like
//     ordinary blocking code. Where it would block it calls [Task.Park].
//  4. Park and Wake follow one protocol, that of a binary semaphore: a wake
//     that comes while the task runs is remembered, and makes the next Park
//     return at once. A waiter makes itself the waker of all that it waits for
//     and loops {check everything; Park}. So "wait for any of these" needs no
//     further mechanism, spurious wakes are legal, and none is ever lost.
//
// In mode [Goroutines] the same routines run on plain goroutines: the reference
// in tests and a switch for diagnosis. Only Start, Park and Wake differ.
//
// A coroutine that no exchange uses waits in a bounded free list; one beyond the
// bound is stopped. sync.Pool would not do: a coroutine that a pool drops is
// leaked for ever.
//
// The rule that everything rests on: code that runs in a turn never blocks. No
// dial, no channel wait, no lock held over I/O; [Task.Block] is for that.
package task
