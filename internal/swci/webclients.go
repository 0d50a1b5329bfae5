package swci

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/swci/shell"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// maxWebClients bounds the clients of web mode whose prompts are kept: of more, those that have been silent longest begin anew.
const maxWebClients = 256

// webClients are the clients of web mode: each has a prompt of its own, with a working directory and a current context, which begins as
// the startup script has left it.
type webClients struct {
	s    *Session
	base *prompt

	mu      sync.Mutex
	prompts map[string]*prompt
	order   []string // of prompts; who spoke last stands last
}

func newWebClients(s *Session, base *prompt) *webClients {
	return &webClients{s: s, base: base, prompts: map[string]*prompt{}}
}

// done is the answer of a command that did what it should and has nothing to say: the original's client takes an empty one for a failure.
const done = "DONE"

// Do implements web.Runner.
func (w *webClients) Do(ctx context.Context, client, line string) (answer []string, err error) {
	answer, err = w.of(client).shell.Do(ctx, line)
	if word, found := w.word(line); found && !word.lists && len(answer) == 0 {
		answer = []string{done}
	}
	return answer, err
}

// Subject implements web.Runner.
func (w *webClients) Subject(line string) string {
	const most = 200
	words := strings.Fields(line)
	if word, found := w.word(line); !found || word.secret {
		words = words[:min(len(words), 2)]
	}
	said := text.Line(strings.Join(words, " "))
	return strings.ToValidUTF8(said[:min(len(said), most)], "")
}

// word is what web mode knows of the command of a line.
func (w *webClients) word(line string) (word webWord, found bool) {
	return w.s.Grammar.webWord(w.s.Grammar.named(strings.Fields(line)))
}

// of is a client's prompt.
func (w *webClients) of(client string) *prompt {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.order, client); i >= 0 {
		w.order = slices.Delete(w.order, i, i+1)
	}
	if w.prompts[client] == nil {
		w.prompts[client] = w.prompt(client)
	}
	if w.order = append(w.order, client); len(w.order) > maxWebClients {
		delete(w.prompts, w.order[0])
		w.order = slices.Delete(w.order, 0, 1)
	}
	return w.prompts[client]
}

// prompt makes a prompt for a client.
func (w *webClients) prompt(client string) *prompt {
	p := &prompt{client: client, dir: w.base.dir, given: w.base.given, switched: new(atomic.Bool)}
	p.switched.Store(w.base.switched.Load())
	p.shell = shell.New(shell.Config{
		In: strings.NewReader(""), Out: io.Discard, Dir: p.dir, OwnDir: true, Split: w.s.Grammar.lex,
		Run: func(ctx context.Context, words []string, out io.Writer) error {
			return w.s.atPrompt(ctx, p, words, out)
		},
	})
	p.allow = func(ctx context.Context, c *Command, l cmdline.Line) error {
		return w.s.Grammar.allowInWeb(ctx, p.shell, c, l)
	}
	return p
}

// longestWait is for how long a command waits at most.
func longestWait(getenv func(string) string) (longest time.Duration, err error) {
	for _, kind := range []string{"RUN_SWARM", "PULL_IMAGE"} {
		limit, err := tasks.MaxWait(kind, getenv)
		if err != nil {
			return 0, err
		}
		longest = max(longest, limit)
	}
	return longest, nil
}
