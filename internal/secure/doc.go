// Package secure is TLS on both sides: how the proxy connects to a Redis under TLS, and how clients connect to it.
// Certificates are files in PEM. They are read again when they are others, without a restart and without the loss of a
// connection: those that stand go on, new ones use the new files. Files that are no good change nothing: the last good
// ones count, and the log says why.
package secure
