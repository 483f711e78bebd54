// Package seal encrypts short secrets to age recipients, as text: what must stand
// in a record or a message and may be read by the holders of some keys alone.
//
// The way through it: Seal to what ParseRecipient reads, and Unseal with one of the
// identities.
//
// It says nothing of who sealed: anyone can who knows a recipient. What must also
// come from somebody in particular is to be signed, or kept where only they write.
package seal
