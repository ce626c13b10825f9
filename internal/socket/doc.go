// Package socket reads and writes network connections for less: a system call on a non-blocking
// socket doesn't block, so Go's scheduler need not be told of it, which costs as much as a short
// call itself. And where the next byte can only be an answer, it waits for the byte first, instead
// of trying to read before it is there.
//
// A connection that is not a plain socket, as one under TLS, is served through its own methods.
package socket
