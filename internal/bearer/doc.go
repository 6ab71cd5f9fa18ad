// Package bearer reads bearer tokens, and what they say of themselves.
//
// Who gets a token, a controller or a CA, finds out whether it is good. Who shows
// one only has to show the newest, and to say what is likely wrong with it when it
// is not accepted; who gets one can turn away without asking anybody what says by
// itself that it is no good. For both, a look into the claims of a JWT is enough,
// and nothing here checks a signature.
package bearer
