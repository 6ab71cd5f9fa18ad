package route

import "slices"

// candidates are the entries of one place, strongest first.
type candidates struct {
	entries []*entry
	index   *conditionIndex // nil: entries are few
}

// shortList is the number of entries up to which they are tried in turn.
const shortList = 8

// add appends an entry to the candidates of a place, made if they are the first.
func add(place **candidates, e *entry) {
	if *place == nil {
		*place = new(candidates)
	}
	(*place).entries = append((*place).entries, e)
}

// finish puts the entries in order, drops what can never match, since a stronger
// entry matches the same requests, and files the others.
func (c *candidates) finish() {
	if c == nil || len(c.entries) <= 1 {
		return
	}
	slices.SortFunc(c.entries, byPrecedence)
	seen := make(map[string]bool, len(c.entries))
	kept := c.entries[:0]
	for _, e := range c.entries {
		if cond := e.condition(); !seen[cond] {
			seen[cond] = true
			kept = append(kept, e)
		}
		if e.class == rankAll {
			break
		}
	}
	clear(c.entries[len(kept):])
	c.entries = kept
	if len(kept) > shortList {
		c.index = newConditionIndex(kept)
	}
}

// first returns the strongest entry that matches, or nil.
func (c *candidates) first(r *Request) *entry {
	if c == nil {
		return nil
	}
	if c.index != nil {
		return c.index.first(c.entries, r)
	}
	for _, e := range c.entries {
		if e.matches(r) {
			return e
		}
	}
	return nil
}

// conditionIndex files entries under one value that they demand of a header or
// query parameter: the rarest that they have, so that lists stay short.
type conditionIndex struct {
	headers map[string]byValue // by name
	query   map[string]byValue
	rest    []int // entries that demand no value, ascending, as in all lists
}

type byValue map[string][]int

type condition struct {
	query       bool
	name, value string
}

func newConditionIndex(entries []*entry) *conditionIndex {
	frequency := make(map[condition]int)
	for _, e := range entries {
		for _, c := range e.conditions() {
			frequency[c]++
		}
	}
	x := &conditionIndex{headers: map[string]byValue{}, query: map[string]byValue{}}
	for i, e := range entries {
		var rarest *condition
		for _, c := range e.conditions() {
			if rarest == nil || frequency[c] < frequency[*rarest] {
				rarest = &c
			}
		}
		x.file(i, rarest)
	}
	return x
}

// conditions are the values that e demands.
func (e *entry) conditions() (all []condition) {
	for i := range e.headers {
		if t := &e.headers[i]; t.regex == nil && t.name != "host" {
			all = append(all, condition{false, t.name, t.value})
		}
	}
	for i := range e.query {
		if t := &e.query[i]; t.regex == nil {
			all = append(all, condition{true, t.name, t.value})
		}
	}
	return all
}

func (x *conditionIndex) file(i int, c *condition) {
	if c == nil {
		x.rest = append(x.rest, i)
		return
	}
	index := x.headers
	if c.query {
		index = x.query
	}
	if index[c.name] == nil {
		index[c.name] = byValue{}
	}
	index[c.name][c.value] = append(index[c.name][c.value], i)
}

func (x *conditionIndex) first(entries []*entry, r *Request) *entry {
	best := firstOf(entries, x.rest, len(entries), r)
	if len(x.headers) > 0 {
		best = x.firstByHeader(entries, best, r)
	}
	if len(x.query) > 0 {
		best = x.firstByQuery(entries, best, r)
	}
	if best == len(entries) {
		return nil
	}
	return entries[best]
}

func (x *conditionIndex) firstByHeader(entries []*entry, best int, r *Request) int {
	for i := range r.Headers {
		name := r.Headers[i].Name
		values, ok := x.headers[name]
		if !ok || r.indexOf(name) != i {
			continue
		}
		var scratch [scratchSize]byte
		list := values[r.Headers[i].Value]
		if _, joined, _ := r.header(name, scratch[:0]); joined != nil {
			list = values[string(joined)]
		}
		best = firstOf(entries, list, best, r)
	}
	return best
}

// firstByQuery may look at a parameter that comes again; firstOf settles that,
// as it tests every condition.
func (x *conditionIndex) firstByQuery(entries []*entry, best int, r *Request) int {
	for pair, rest := nextPair(r.Query); pair != "" || rest != ""; pair, rest = nextPair(rest) {
		var scratch [scratchSize]byte
		name, value := cutParameter(pair)
		if values := lookUp(x.query, name, scratch[:0]); values != nil {
			best = firstOf(entries, lookUp(values, value, scratch[:0]), best, r)
		}
	}
	return best
}

func lookUp[V any](m map[string]V, escaped string, scratch []byte) V {
	if !isEscaped(escaped) {
		return m[escaped]
	}
	return m[string(unescape(escaped, scratch))]
}

// firstOf returns the first index in list, below best, of an entry that matches;
// else best.
func firstOf(entries []*entry, list []int, best int, r *Request) int {
	for _, i := range list {
		if i >= best {
			break
		}
		if entries[i].matches(r) {
			return i
		}
	}
	return best
}
