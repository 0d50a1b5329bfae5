package enginetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Registry is a registry of images of a test's own, on 127.0.0.1, from which the machine's engine fetches without TLS. It has an image of
// one layer under all names and one tag, and by their digests those that had the tag before.
type Registry struct {
	// Address is host:port, which begins the names of its images.
	Address string
	// Tag is the only one, and Digest that of its image; it begins with sha256:.
	Tag, Digest string

	mu                 sync.Mutex
	manifests, blobs   map[string][]byte // by digest
	username, password string
	held               chan struct{} // layers wait until it is closed; nil: they do not
	waiting            chan struct{} // closed once a layer waits
}

// NewRegistry starts a registry, which ends with the test. The image is unlike those of other registries.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return NewRegistryAt(t, l)
}

// NewRegistryAt is NewRegistry with its listener, which it closes: it may be that of another host.
func NewRegistryAt(t testing.TB, l net.Listener) *Registry {
	t.Helper()
	r := &Registry{Address: l.Addr().String(), Tag: "1.0", manifests: map[string][]byte{}, blobs: map[string][]byte{}}
	r.Move(t)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: r, ReadHeaderTimeout: Timeout}}
	server.Start()
	t.Cleanup(func() { r.Release(); server.Close() })
	return r
}

// Move gives the tag to an image that is unlike all others.
func (r *Registry) Move(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	layer, diff := layerOf(t, "id", random())
	config := marshal(t, v1.Image{
		Created: &time.Time{}, Platform: v1.Platform{Architecture: "amd64", OS: "linux"}, Config: v1.ImageConfig{Cmd: []string{"/id"}},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.Digest(diff)}},
	})
	manifest := marshal(t, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": r.add(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(layer), "digest": r.add(layer)}},
	})
	r.Digest = sum(manifest)
	r.manifests[r.Digest] = manifest
}

// Forget takes an image away.
func (r *Registry) Forget(digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.manifests, digest)
}

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

// Protect has the registry ask for a name and a password.
func (r *Registry) Protect(username, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.username, r.password = username, password
}

// Hold has layers wait until Release. The channel is closed once an engine waits for one.
func (r *Registry) Hold() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held, r.waiting = make(chan struct{}), make(chan struct{})
	return r.waiting
}

// Release ends Hold.
func (r *Registry) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}

// ServeHTTP is as much of the registries' API as an engine asks for.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	what := parts[len(parts)-1]
	r.mu.Lock()
	username, password, held := r.username, r.password, r.held
	digest := what
	if what == r.Tag {
		digest = r.Digest
	}
	manifest, blob := r.manifests[digest], r.blobs[what]
	r.mu.Unlock()
	if u, p, _ := q.BasicAuth(); username != "" && (u != username || p != password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return
	}
	switch {
	case len(parts) == 1:
		w.WriteHeader(http.StatusOK)
	case parts[len(parts)-2] == "manifests" && manifest != nil:
		w.Header().Set("Docker-Content-Digest", digest)
		r.send(w, q, manifestType, manifest)
	case parts[len(parts)-2] == "manifests":
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
	case blob != nil:
		if held != nil && !r.wait(q, held, blob) {
			return
		}
		r.send(w, q, "application/octet-stream", blob)
	default:
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown")
	}
}

// wait holds back a layer; false: nobody asks for it any more.
func (r *Registry) wait(q *http.Request, held chan struct{}, blob []byte) bool {
	if !bytes.HasPrefix(blob, []byte{0x1f, 0x8b}) {
		return true // no layer
	}
	r.mu.Lock()
	if r.waiting != nil {
		close(r.waiting)
		r.waiting = nil
	}
	r.mu.Unlock()
	select {
	case <-held:
		return true
	case <-q.Context().Done():
		return false
	}
}

func (r *Registry) send(w http.ResponseWriter, q *http.Request, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if q.Method != http.MethodHead {
		_, _ = w.Write(body) // who asked may be gone
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": code, "message": message}}})
}

func (r *Registry) add(blob []byte) string {
	r.blobs[sum(blob)] = blob
	return sum(blob)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

func marshal(t testing.TB, x any) []byte {
	t.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// layerOf is a layer with one file, and the digest of what is in it.
func layerOf(t testing.TB, name, text string) (layer []byte, diff string) {
	t.Helper()
	var raw, packed bytes.Buffer
	archive := tar.NewWriter(&raw)
	err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = archive.Write([]byte(text))
	}
	if err != nil || archive.Close() != nil {
		t.Fatal("make a layer: ", err)
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(raw.Bytes()); err != nil || z.Close() != nil {
		t.Fatal("pack a layer: ", err)
	}
	return packed.Bytes(), sum(raw.Bytes())
}
