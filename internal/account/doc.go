// Package account is who may use the proxy, where it asks by itself: a [List] of users and their passwords.
//
//	User (as configured) ──New──▶ List ──Check(name, password)──▶ Account
//
// A list does not change, but for the files that its passwords are in: these are read again, all of them, by whoever logs in,
// once a second at most. So how long a check takes tells neither whether there is a user of that name nor how much of a
// password is right. Passwords are kept as digests, and are in no error and no log.
package account
