package top

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	period    = 2 * time.Second        // between two questions for a document
	beat      = 500 * time.Millisecond // how often the screen looks what is due
	silence   = 6 * time.Second        // without an answer, until it is said
	maxAsking = 4                      // questions under way
)

// answer is what came of a question.
type answer struct {
	name  string
	value json.RawMessage
	read  any    // what the value says
	sn    string // that is asked
	lost  string // why the swarm can't be asked; empty: it can
	err   string // why there is no value
	// remedy is what to do about either.
	remedy string
}

// reading is the answer with what its value says. It takes long of a large one, and is no work for Update.
func (a answer) reading() answer {
	if a.value == nil {
		return a
	}
	var err error
	if a.read, err = document(a.name, a.value); err != nil {
		return answer{name: a.name, sn: a.sn, lost: a.lost, err: text.Line(err.Error()), remedy: "use the swarmctl of the swarm's release"}
	}
	return a
}

// beats is sent every beat.
type beats struct{}

// question's state of a document.
type asked struct {
	due         time.Time
	asking      bool
	wanted      time.Time // since when it does not come; zero: it came when it was asked for last
	came        time.Time // when it did; zero: never
	err, remedy string
}

// contact is how the screen and the swarm stand.
type contact struct {
	sn           string
	lost, remedy string
	since        time.Time
}

// runs are those of the contract that is shown.
type runs struct {
	now    uint64 // 0: not known yet
	before uint64 // that it had when it was reset, or deleted and made anew, while it was shown; 0: it was not
}

// screen is the model of the screen: Update takes what happens, and View draws what is known.
type screen struct {
	cfg      Config
	ask      func(name string) answer
	width    int
	height   int
	known    known
	asked    map[string]*asked
	contact  contact
	lost     map[string]answer // the last ones about the swarm and its nodes
	contract string            // that is shown; empty: none is known yet
	heard    time.Time         // when the swarm answered last
	offset   int               // first line that is shown
	paused   time.Time
	refused  bool // another contract was wanted while it is paused
	help     bool
	runs     runs
}

func newScreen(cfg Config, ask func(string) answer) *screen {
	return &screen{cfg: cfg, ask: ask, width: 80, height: 24, asked: map[string]*asked{}, lost: map[string]answer{}, contact: contact{since: cfg.Now()}, heard: cfg.Now(), contract: cfg.Contract}
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return tea.Batch(append(s.questions(), tick())...) }

func tick() tea.Cmd { return tea.Tick(beat, func(time.Time) tea.Msg { return beats{} }) }

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s, s.press(msg.String())
	case answer:
		s.took(msg)
		return s, tea.Batch(s.questions()...)
	case beats:
		return s, tea.Batch(append(s.questions(), tick())...)
	}
	return s, nil
}

// View implements tea.Model.
func (s *screen) View() tea.View {
	v := tea.NewView(s.draw())
	v.AltScreen = true
	return v
}

// names are the documents that are shown now.
func (s *screen) names() []string {
	names := []string{"swarm", "contracts", "nodes", "health"}
	if s.contract != "" {
		names = append(names, "contract/"+s.contract, "explain/"+s.contract, "history/"+s.contract)
	}
	return names
}

// questions are for the documents that are due.
func (s *screen) questions() (cmds []tea.Cmd) {
	if !s.paused.IsZero() {
		return nil
	}
	now, busy := s.cfg.Now(), 0
	for _, a := range s.asked {
		if a.asking {
			busy++
		}
	}
	names := s.names()
	for _, name := range names {
		if s.asked[name] == nil {
			s.asked[name] = &asked{}
		}
	}
	// Those that wait longest come first: where answers take long, all get their turn.
	slices.SortStableFunc(names, func(a, b string) int { return s.asked[a].due.Compare(s.asked[b].due) })
	for _, name := range names {
		a := s.asked[name]
		if busy >= maxAsking || a.asking || now.Before(a.due) || s.rests(name, a, now) {
			continue
		}
		busy++
		a.asking, a.due = true, now.Add(period)
		if a.wanted.IsZero() {
			a.wanted = now
		}
		asks := s.asksFor(name)
		cmds = append(cmds, func() tea.Msg {
			got := s.ask(asks)
			got.name = name
			return got.reading()
		})
	}
	return cmds
}

// took takes an answer. While the swarm can't be asked what was known last stays.
func (s *screen) took(a answer) {
	s.linked(a)
	of := s.asked[a.name]
	if of == nil {
		return
	}
	of.asking = false
	if a.read != nil || a.lost == "" {
		of.wanted, of.came = time.Time{}, s.cfg.Now()
	}
	if !slices.Contains(s.names(), a.name) {
		delete(s.asked, a.name) // of a contract that was shown before
		return
	}
	switch {
	case a.read != nil:
		of.err, of.remedy = "", ""
		s.known.take(a.read)
	case a.lost == "":
		of.err, of.remedy = a.err, a.remedy
		s.known.drop(a.name)
	}
	if st := s.known.status; st != nil && st.Run != s.runs.now {
		if s.runs.now > 0 && st.Run > s.runs.now {
			s.runs.before = s.runs.now
		}
		s.runs.now = st.Run
	}
	s.choose()
}

// linked notes how the swarm was found. The swarm and its nodes alone say that it can't be asked: others may fail while it is well.
func (s *screen) linked(a answer) {
	if a.lost == "" {
		s.heard = s.cfg.Now()
	}
	if a.name == "swarm" || a.name == "nodes" {
		s.lost[a.name] = a
	}
	lost, remedy := "", ""
	for _, name := range []string{"swarm", "nodes"} {
		if said := s.lost[name]; said.lost != "" {
			lost, remedy = said.lost, said.remedy
		}
	}
	if s.contact.sn != a.sn || (s.contact.lost == "") != (lost == "") {
		s.contact.since = s.cfg.Now()
	}
	s.contact.sn, s.contact.lost, s.contact.remedy = a.sn, lost, remedy
}

// choose picks a contract where none is shown: one that trains, or the first.
func (s *screen) choose() {
	if s.contract != "" || s.known.contracts == nil || len(s.known.contracts.Contracts) == 0 {
		return
	}
	all := s.known.contracts.Contracts
	i := slices.IndexFunc(all, func(c Contract) bool { return c.Open > 0 && c.Phase != "completed" })
	s.show(all[max(i, 0)].Name)
}

// show shows another contract.
func (s *screen) show(contract string) {
	s.contract, s.runs, s.offset = contract, runs{}, 0
	s.known.drop("")
	for name, a := range s.asked {
		if !strings.Contains(name, "/") {
			continue
		}
		if a.due = (time.Time{}); !a.asking {
			delete(s.asked, name)
		}
	}
}

// press does what a key stands for.
func (s *screen) press(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "?", "h":
		s.help, s.offset = !s.help, 0
	case "esc":
		s.help = false
	case "p", "space":
		return s.pause()
	case "tab", "right", "l":
		return s.turn(1)
	case "shift+tab", "left":
		return s.turn(-1)
	case "up", "k":
		s.offset--
	case "down", "j":
		s.offset++
	case "pgup":
		s.offset -= s.room()
	case "pgdown":
		s.offset += s.room()
	case "home", "g":
		s.offset = 0
	case "end", "G":
		s.offset = math.MaxInt
	}
	s.offset = max(0, min(s.offset, len(s.body())-s.room()))
	return nil
}

// pause stops the questions, or goes on with them.
func (s *screen) pause() tea.Cmd {
	if s.paused.IsZero() {
		s.paused = s.cfg.Now()
		return nil
	}
	s.paused, s.heard, s.refused = time.Time{}, s.cfg.Now(), false
	return tea.Batch(s.questions()...)
}

// turn shows the contract that is by places further in the list.
func (s *screen) turn(by int) tea.Cmd {
	if s.known.contracts == nil || len(s.known.contracts.Contracts) == 0 {
		return nil
	}
	all := s.known.contracts.Contracts
	i := slices.IndexFunc(all, func(c Contract) bool { return c.Name == s.contract })
	if i < 0 && by < 0 {
		i = 0
	}
	next := all[(i+by+len(all))%len(all)].Name
	if next != s.contract && !s.paused.IsZero() {
		s.refused = true // nothing is known of it, and nothing is asked
		return nil
	}
	if next != s.contract {
		s.show(next)
	}
	return tea.Batch(s.questions()...)
}
