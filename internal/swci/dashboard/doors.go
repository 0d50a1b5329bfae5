package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
)

// maxSessions bounds the browsers that are let in; the one that came first goes when there are more.
const maxSessions = 16

// doors decide which browsers are let in: a token lets in one, which has a session's secret from then on. Secrets are kept as hashes.
type doors struct {
	invite func(token string) // is told the next one

	mu       sync.Mutex
	token    [32]byte // that is good now
	used     [][32]byte
	sessions [][32]byte
}

// open makes the token that is good from now on.
func (d *doors) open() {
	token := rand.Text()
	d.mu.Lock()
	d.token = sha256.Sum256([]byte(token))
	d.mu.Unlock()
	d.invite(token)
}

// enter takes a token and returns the secret of a new session; used says that the token is none any more, for somebody has used it.
func (d *doors) enter(token string) (secret string, used bool) {
	sum := sha256.Sum256([]byte(token))
	d.mu.Lock()
	if subtle.ConstantTimeCompare(sum[:], d.token[:]) != 1 {
		defer d.mu.Unlock()
		return "", among(d.used, sum)
	}
	secret = rand.Text()
	d.used = newestOf(append(d.used, sum))
	d.sessions = newestOf(append(d.sessions, sha256.Sum256([]byte(secret))))
	d.mu.Unlock()
	d.open()
	return secret, false
}

// knows reports whether a secret is that of a session.
func (d *doors) knows(secret string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return among(d.sessions, sha256.Sum256([]byte(secret)))
}

func among(all [][32]byte, sum [32]byte) bool {
	found := 0
	for _, x := range all {
		found |= subtle.ConstantTimeCompare(x[:], sum[:])
	}
	return found == 1
}

func newestOf(all [][32]byte) [][32]byte { return all[max(0, len(all)-maxSessions):] }
