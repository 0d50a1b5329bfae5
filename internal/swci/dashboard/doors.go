package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
)

// maxSessions bounds the browsers that are let in; the one that came first goes when there are more.
const maxSessions = 16

// doors decide which browsers are let in: a token lets in one, which has the two secrets of a session from then on.
type doors struct {
	invite func(token string) // is told the next one

	mu       sync.Mutex
	token    [32]byte // that is good now
	used     [][32]byte
	sessions []session
}

// session is a browser that was let in: hashes of its secrets. The cookie goes to every server of this machine, whatever its port; the key is
// kept by the page, which scripts of another port can't read, and is asked for wherever something of the swarm is to be had.
type session struct{ cookie, key [32]byte }

// open makes the token that is good from now on.
func (d *doors) open() {
	token := rand.Text()
	d.mu.Lock()
	d.token = sha256.Sum256([]byte(token))
	d.mu.Unlock()
	d.invite(token)
}

// enter takes a token and returns the secrets of a new session; used says that the token is none any more, for somebody has used it.
func (d *doors) enter(token string) (cookie, key string, used bool) {
	sum := sha256.Sum256([]byte(token))
	d.mu.Lock()
	if subtle.ConstantTimeCompare(sum[:], d.token[:]) != 1 {
		defer d.mu.Unlock()
		return "", "", among(d.used, sum)
	}
	cookie, key = rand.Text(), rand.Text()
	d.used = newestOf(append(d.used, sum))
	d.sessions = newestOf(append(d.sessions, session{sha256.Sum256([]byte(cookie)), sha256.Sum256([]byte(key))}))
	d.mu.Unlock()
	d.open()
	return cookie, key, false
}

// knows reports whether a cookie is that of a session, and whether the key is that of the same one.
func (d *doors) knows(cookie, key string) (browser, page bool) {
	a, b := sha256.Sum256([]byte(cookie)), sha256.Sum256([]byte(key))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		if subtle.ConstantTimeCompare(s.cookie[:], a[:]) == 1 {
			browser, page = true, subtle.ConstantTimeCompare(s.key[:], b[:]) == 1
		}
	}
	return browser, page
}

func among(all [][32]byte, sum [32]byte) bool {
	found := 0
	for _, x := range all {
		found |= subtle.ConstantTimeCompare(x[:], sum[:])
	}
	return found == 1
}

func newestOf[T any](all []T) []T { return all[max(0, len(all)-maxSessions):] }
