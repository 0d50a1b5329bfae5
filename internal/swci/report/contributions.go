package report

import "fmt"

// maxColumns bounds the columns of the picture of contributions: of a longer training each stands for several rounds.
const maxColumns = 300

// contributions is one picture of who was how much of the merged model in which round, ready for the template.
type contributions struct {
	Width, Height, Left, Base float64
	Rows                      []contribution
	XTicks                    []tick
}

// contribution is one peer's row.
type contribution struct {
	Name      string
	Y, Middle float64 // lower edge, and where its name stands
	Spans     []span
}

// span is rounds in a row in which a peer's share was the same.
type span struct {
	X, Y, W, H float64
	Text       string
	share      float64
	from, to   int64
}

const (
	rowHeight, barHeight = 20.0, 16.0
	pictureWidth         = 720.0
	pictureLeft          = 56.0
)

func (p *Page) contributions() *contributions {
	n := len(p.Rounds)
	if n == 0 {
		return nil
	}
	most := 0.0
	for i := range p.Rounds {
		for _, peer := range p.Summary.Peers {
			most = max(most, p.Rounds[i].share(peer.Name))
		}
	}
	if most == 0 {
		return nil
	}
	c := &contributions{Width: pictureWidth, Left: pictureLeft, Base: rowHeight * float64(len(p.Summary.Peers))}
	c.Height = c.Base + 24
	columns := min(n, maxColumns)
	x := func(column int) float64 {
		return round1(pictureLeft + float64(column)/float64(columns)*(pictureWidth-pictureLeft-8))
	}
	for i, peer := range p.Summary.Peers {
		row := contribution{Name: peer.Name, Y: rowHeight * float64(i+1), Middle: rowHeight*float64(i) + rowHeight/2}
		for _, s := range p.spans(peer.Name, columns) {
			s.H = max(1, round1(s.share/most*barHeight))
			s.X, s.Y = x(int(s.X)), row.Y-s.H
			s.W = max(0.5, x(int(s.W))-s.X-gap(columns))
			row.Spans = append(row.Spans, s)
		}
		c.Rows = append(c.Rows, row)
	}
	// Rounds are counted from 1: the first one, and then each that is a multiple of the step. The last ones make room for the word.
	step := max(1, int(roundStep(float64(n)/8)))
	for i := range n {
		if i == 0 || (i+1)%step == 0 && i < n*94/100 && i > step/3 {
			c.XTicks = append(c.XTicks, tick{x(i * columns / n), fmt.Sprint(p.Rounds[i].Round)})
		}
	}
	return c
}

// gap stands between the rounds of a short training.
func gap(columns int) float64 {
	if columns > 40 {
		return 0
	}
	return 1.5
}

// spans are a peer's, with X the first column and W the column behind the last one. A column of several rounds has their mean.
func (p *Page) spans(peer string, columns int) []span {
	var out []span
	n := len(p.Rounds)
	for column := range columns {
		rounds := p.Rounds[column*n/columns : (column+1)*n/columns]
		share := 0.0
		for i := range rounds {
			share += rounds[i].share(peer) / float64(len(rounds))
		}
		if share == 0 {
			continue
		}
		from, to := rounds[0].Round, rounds[len(rounds)-1].Round
		if last := len(out) - 1; last >= 0 && out[last].W == float64(column) && nearly(out[last].share, share) && columns > 40 {
			out[last].W, out[last].to = float64(column+1), to
			continue
		}
		out = append(out, span{X: float64(column), W: float64(column + 1), share: share, from: from, to: to})
	}
	for i := range out {
		s := &out[i]
		s.Text = fmt.Sprintf("%s, round %d: %.1f %% of the merged model", peer, s.from, 100*s.share)
		if s.to > s.from {
			s.Text = fmt.Sprintf("%s, rounds %d to %d: %.1f %% of the merged model", peer, s.from, s.to, 100*s.share)
		}
	}
	return out
}

// nearly reports whether two measurements are one, but for rounding.
func nearly(a, b float64) bool {
	d := a - b
	return d < 1e-9 && d > -1e-9
}
