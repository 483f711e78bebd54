// Package tokenkv keeps the tokens of the HTTP API in a bucket of NATS, and tells whose a token is.
//
// The way through it: Store.Create makes a token, Check finds the record of one and writes down that it was
// used, List and Revoke are for those who manage them. A token is 32 random bytes as text. Its record is
// stored under the SHA-256 digest of that text, so that neither the bucket nor a backup of it lets anyone in;
// a digest without salt is enough for 256 random bits. Every change is a compare-and-swap: that a token was
// used never undoes that it was revoked. A login of a browser has two secrets, which are found together alone; the cookies
// of hosts of ports end with their login.
//
// The package never decides what the bearer of a token may do (package services/api does), and never logs,
// stores or returns a token but once, from Create.
package tokenkv
