// Package seal encrypts short secrets to age recipients, as text: what must stand
// in a record or a message and may be read by the holders of some keys alone.
//
// The way through it: Seal to what ParseRecipient reads, and Unseal with one of the
// identities.
//
// A sealed text doesn't prove who sealed it: anyone who knows a recipient can. Sign a
// secret whose origin matters, or keep it where only its author can write.
package seal
