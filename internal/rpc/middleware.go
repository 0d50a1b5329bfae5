package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc/quota"
)

// Headers of the API. See api/swarm/v1/swarm.proto.
const (
	// HeaderSwarmID carries the swarm's ID both ways, with its epoch if that is not the first.
	HeaderSwarmID = "Swarm-Id"
	// HeaderNode carries the name of the node that a call speaks for.
	HeaderNode = "Swarm-Node"
	// HeaderToken carries what registration returned, as unpadded URL-safe base64.
	HeaderToken = "Swarm-Token"
)

// MaxMessage is the largest request of any method that is read, in bytes, before and after decompression. The access table
// has each method's bound.
const MaxMessage = 4 << 20

// bodyTime is how long a request may take to arrive: who sends one byte at a time keeps memory for nothing.
const bodyTime = 30 * time.Second

// entrance is what a call passes before a service hears of it.
type entrance struct {
	*shared

	budget  *quota.Memory
	perNode *quota.Memory // of small calls that carry a token, by SPIFFE ID and node
	crowd   *identity.Crowd
}

func newEntrance(all *shared) *entrance {
	limits := all.cfg.Limits
	return &entrance{
		shared:  all,
		budget:  quota.NewMemory(cmp.Or(limits.Memory, memoryInAll), cmp.Or(limits.MemoryPerID, memoryPerID), 0),
		perNode: quota.NewMemory(cmp.Or(limits.MemoryNodes, memoryNodes), cmp.Or(limits.MemoryPerNode, memoryPerNode), timesFree),
		crowd:   identity.NewCrowd(limits.Conns, all.cfg.Log),
	}
}

func (s *entrance) guard() *guard {
	return &guard{core: s.cfg.Core, lost: s.lost, table: AccessTable(), permits: s.permits, stray: s.cfg.Stray, log: s.cfg.Log}
}

// authenticate lets in whoever the connection proves to be somebody, answers /is_up, and ends what outlives the
// caller's SVID: requests are cut when it expires, and shortly before the connection is asked to be made anew. Nothing
// is read from a caller who may not call the method, or for whose message there is no memory.
func (s *entrance) authenticate(who CallerFunc, serve func(w http.ResponseWriter, r *http.Request, caller Caller, rule Access)) http.Handler {
	refuse, guard, table := connect.NewErrorWriter(), s.guard(), AccessTable()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := who(r)
		if err == nil && caller.expired(s.cfg.Now()) {
			err = ErrCertificateExpired
		}
		if err != nil {
			w.Header().Set("Connection", "close")
			if refuse.IsSupported(r) {
				_ = refuse.Write(w, r, toConnect(err)) // the client is gone: nobody to tell
				return
			}
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		// A challenge is followed by a registration that must come on the same connection.
		if caller.via == "" && caller.nearlyExpired(s.cfg.Now()) && r.URL.Path != swarmv1connect.NodeServiceChallengeProcedure {
			w.Header().Set("Connection", "close") // HTTP/2: a graceful GOAWAY
		}
		if id := pinOf(s.cfg.Core.View()).String(); id != "" {
			w.Header().Set(HeaderSwarmID, id)
		}
		if r.URL.Path == "/is_up" {
			s.isUp(w, r)
			return
		}
		ctx := withCaller(r.Context(), caller)
		if caller.Leaf != nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, caller.Leaf.NotAfter.Sub(s.cfg.Now()), ErrCertificateExpired)
			defer cancel()
		}
		rule, known := table[r.URL.Path]
		if known && refuse.IsSupported(r) {
			var give func()
			if ctx, give, err = s.letIn(ctx, guard, rule, r); err != nil {
				_ = refuse.Write(w, r, toConnect(err)) // the client is gone: nobody to tell
				return
			}
			defer give()
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTime)) // an error means no connection to stall
		r.Body = &timedBody{
			ReadCloser: http.MaxBytesReader(w, r.Body, rule.maxMessage()+64), // 64: framing
			done:       func() { _ = control.SetReadDeadline(time.Time{}) },
		}
		if !known || !refuse.IsSupported(r) {
			rule = Access{} // for connect to refuse
		}
		serve(w, r.WithContext(ctx), caller, rule)
	})
}

// letIn checks what a call's headers carry and takes the memory that it may need; give returns that.
func (s *entrance) letIn(ctx context.Context, g *guard, rule Access, r *http.Request) (inner context.Context, give func(), err error) {
	start := time.Now()
	inner, err = g.admit(ctx, r.URL.Path, r.Header)
	if err == nil {
		caller, _ := callerFrom(ctx) // admit has found it
		wait, cancel := context.WithTimeout(ctx, s.cfg.BodyTime)
		defer cancel()
		pool, who := s.budget, quota.Taker{ID: caller.ID.String()}
		if rule.Token && rule.charge(r) <= smallCall { // The token is checked, so the name is its own.
			pool, who.Node = s.perNode, r.Header.Get(HeaderNode)
		} else if !rule.Token && caller.via != "" { // Who calls is that SN's word.
			who.ID = caller.via
		}
		give, err = pool.Take(wait, who, rule.charge(r))
	}
	if err != nil {
		g.trace(ctx, r.URL.Path, start, err)
	}
	return inner, give, err
}

// timedBody lifts the deadline when all has arrived: an answer may take longer.
type timedBody struct {
	io.ReadCloser
	done func()
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

// recoverPanic turns a panic in a handler into an internal error; the stack goes to the log only.
func recoverPanic(log *slog.Logger) connect.HandlerOption {
	return connect.WithRecover(func(_ context.Context, spec connect.Spec, _ http.Header, p any) error {
		log.Error("panic in API handler", "procedure", spec.Procedure, "panic", p, "stack", stack())
		return toConnect(errors.New("internal error"))
	})
}
