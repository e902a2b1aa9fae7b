package console

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// A shape is a conventional form of the elements of a list in a page: objects with some members. A form has
// fields for these, and keeps all others.
type shape struct {
	One     string // what people call an element
	Members []member
}

// A member is a member of the objects of a shape.
type member struct {
	Name, Title string
	Kind        string
	Usual       string // the text of new elements for which none is entered
	Choices     []string
	Of          *shape // of the elements of a list
}

// Kinds of a member.
const (
	memberText       = "text"
	memberLines      = "lines" // a text of several lines
	memberCheck      = "check" // true or false
	memberList       = "list"
	memberIdentifier = "identifier" // made from the first text of a new element
	memberIndex      = "index"      // the index of the element
)

// shapes are those of the lists in a page, which the API description shows.
var shapes = map[string]*shape{
	"actions": {"Action", []member{
		{Name: "actionId", Kind: memberIdentifier},
		{Name: "actionIndex", Kind: memberIndex},
		{Name: "buttonTitle", Title: "Button", Kind: memberText},
		{Name: "url", Title: "Address", Kind: memberText},
		{Name: "purpose", Title: "Purpose", Kind: memberText, Usual: "primary", Choices: []string{"primary", "secondary"}},
		{Name: "actionType", Title: "Kind", Kind: memberText, Usual: "link", Choices: []string{"link"}},
	}},
	"scripts": {"Script", []member{
		{Name: "name", Title: "Name", Kind: memberText},
		{Name: "description", Title: "Description", Kind: memberText},
		{Name: "injectionPoint", Title: "Place", Kind: memberText, Usual: "head", Choices: []string{"head", "body"}},
		{Name: "content", Title: "Script", Kind: memberLines},
		{Name: "enabled", Title: "Runs on the site", Kind: memberCheck},
	}},
	"footerLinks": {"Group", []member{
		{Name: "id", Kind: memberIdentifier},
		{Name: "title", Title: "Title", Kind: memberText},
		{Name: "links", Kind: memberList, Of: &shape{"Link", []member{
			{Name: "id", Kind: memberIdentifier},
			{Name: "text", Title: "Text", Kind: memberText},
			{Name: "url", Title: "Address", Kind: memberText},
		}}},
	}},
}

// A rowList is a list as a form shows it.
type rowList struct {
	One  string
	Rows []row
}

// A row is an element of a list in a form. The names of its fields begin with a prefix.
type row struct {
	Prefix   string
	Position int // from 1; 0 for a new element
	Fields   []rowField
	Lists    []rowList
}

// A rowField is a field for a member of an element.
type rowField struct {
	Name, Title, Kind, Value, Usual string
	Choices                         []string // suggested values
	Checked                         bool
}

// Bounds of a form with rows. What is larger can be changed as JSON only.
const (
	maxRowBytes = 32 << 10 // of the JSON text
	maxRows     = 100      // of one list
)

// rows returns the fields for a list, or nil if the list is too large or has elements of another form.
func (s *shape) rows(prefix, list string) *rowList {
	if len(list) > maxRowBytes {
		return nil
	}
	all, ok := s.list(prefix, jsontext.Value(list))
	if !ok {
		return nil
	}
	return &all
}

func (s *shape) list(prefix string, list jsontext.Value) (all rowList, ok bool) {
	elements, ok := parseArray(list)
	if !ok || len(elements) >= maxRows {
		return all, false
	}
	all.One = s.One
	for i, element := range elements {
		r, ok := s.row(prefix+":"+strconv.Itoa(i), element)
		if !ok {
			return all, false
		}
		r.Position = i + 1
		all.Rows = append(all.Rows, r)
	}
	empty, ok := s.row(prefix+":"+strconv.Itoa(len(elements)), jsontext.Value("{}"))
	all.Rows = append(all.Rows, empty)
	return all, ok
}

// row returns the fields for an element.
func (s *shape) row(prefix string, element jsontext.Value) (r row, ok bool) {
	o, ok := parseObject(element)
	if !ok {
		return r, false
	}
	r.Prefix = prefix
	for _, m := range s.Members {
		value := o.get(m.Name)
		f := rowField{Name: prefix + ":" + m.Name, Title: m.Title, Kind: m.Kind, Usual: m.Usual, Choices: m.Choices}
		switch m.Kind {
		case memberText, memberLines:
			if value != nil && json.Unmarshal(value, &f.Value) != nil || value.Kind() == 'n' {
				return r, false
			}
		case memberCheck:
			if value != nil && json.Unmarshal(value, &f.Checked) != nil || value.Kind() == 'n' {
				return r, false
			}
		case memberList:
			if value == nil {
				value = jsontext.Value("[]")
			}
			inner, ok := m.Of.list(f.Name, value)
			if !ok {
				return r, false
			}
			r.Lists = append(r.Lists, inner)
			continue
		default:
			continue // not shown
		}
		r.Fields = append(r.Fields, f)
	}
	return r, true
}

// A placed is an element with the position that the form gives to it. Several elements may have the same.
type placed struct {
	object   object
	position int
	moved    int // forward: -1, backward: 1; an element that is moved comes closer than one that is not
	from     int // the index before
}

// build returns a list with the changes that a form makes to it, and an error if a field is wrong.
func (s *shape) build(prefix string, list jsontext.Value, form url.Values) (jsontext.Value, error) {
	if len(list) > maxRowBytes { // the form has no fields for it
		return list, nil
	}
	elements, _ := parseArray(list)
	var all []placed
	changed := false
	for i := range maxRows {
		at := prefix + ":" + strconv.Itoa(i)
		if i >= len(elements) && !form.Has(at+":"+s.firstText()) {
			break
		}
		if form.Get(at+":remove") != "" {
			changed = true
			continue
		}
		p := placed{position: i + 1, from: i}
		if i < len(elements) {
			p.object, _ = parseObject(elements[i])
		}
		filled, err := s.fill(&p.object, at, form)
		if err != nil {
			return nil, err
		}
		if i >= len(elements) && len(p.object) == 0 {
			continue
		}
		changed = changed || filled
		if text := strings.TrimSpace(form.Get(at + ":position")); text != "" {
			if p.position, err = strconv.Atoi(text); err != nil {
				return nil, fmt.Errorf("the position %q is not a number", atrium.Shorten(40, text))
			}
			p.moved = cmp.Compare(p.position, i+1)
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.moved, b.moved))
	})
	for i, p := range all {
		changed = changed || p.from != i
	}
	if !changed {
		return list, nil
	}
	return s.finish(all, len(elements)), nil
}

// finish returns the list with the elements. It gives identifiers to those that are new, and an index to all.
func (s *shape) finish(all []placed, existing int) jsontext.Value {
	used := map[string]bool{}
	for _, m := range s.Members {
		for _, p := range all {
			if m.Kind == memberIdentifier {
				used[string(p.object.get(m.Name))] = true
			}
		}
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range all {
		p := &all[i]
		for _, m := range s.Members {
			isNew := p.from >= existing
			switch value := p.object.get(m.Name); {
			case m.Kind == memberIdentifier && isNew:
				p.object.set(m.Name, identifier(s.One, p.object.get(s.firstText()), used))
			case m.Kind == memberIndex && (isNew || value.Kind() == '0'):
				p.object.set(m.Name, jsontext.Value(strconv.Itoa(i)))
			case m.Kind == memberText && isNew && value == nil && m.Usual != "":
				p.object.set(m.Name, quote(m.Usual))
			case m.Kind == memberCheck && isNew && value == nil:
				p.object.set(m.Name, jsontext.Value("false"))
			}
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if p.from >= existing {
			p.object.sort(s)
		}
		b.Write(p.object.text())
	}
	b.WriteByte(']')
	return b.Bytes()
}

// firstText returns the name of the first text of the shape.
func (s *shape) firstText() string {
	i := slices.IndexFunc(s.Members, func(m member) bool { return m.Kind == memberText })
	return s.Members[i].Name
}

// fill changes the members for which the form has another value. Empty fields of missing members stay missing.
func (s *shape) fill(o *object, at string, form url.Values) (changed bool, err error) {
	for _, m := range s.Members {
		name, value := at+":"+m.Name, o.get(m.Name)
		var changedTo jsontext.Value
		switch m.Kind {
		case memberText, memberLines:
			var before string
			_ = json.Unmarshal(value, &before) // "" if it is missing
			entered := lines(form.Get(name))
			if m.Kind == memberText {
				entered = strings.TrimSpace(entered)
			}
			if form.Has(name) && entered != lines(before) {
				changedTo = quote(entered)
			}
		case memberCheck:
			before := value.Kind() == 't'
			if entered := form.Get(name) != ""; entered != before {
				changedTo = jsontext.Value(strconv.FormatBool(entered))
			}
		case memberList:
			if value == nil {
				value = jsontext.Value("[]")
			}
			built, err := m.Of.build(name, value, form)
			if err != nil {
				return false, err
			}
			if string(built) != string(value) {
				changedTo = built
			}
		}
		if changedTo != nil {
			o.set(m.Name, changedTo)
			changed = true
		}
	}
	return changed, nil
}

// identifier returns a new identifier made of a text. Lists of a page are short, so it is readable.
func identifier(one string, title jsontext.Value, used map[string]bool) jsontext.Value {
	var text string
	_ = json.Unmarshal(title, &text) // "" if it is missing
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	base := cmp.Or(atrium.Shorten(40, strings.Join(words, "-")), strings.ToLower(one))
	id := quote(base)
	for n := 2; used[string(id)]; n++ {
		id = quote(base + "-" + strconv.Itoa(n))
	}
	used[string(id)] = true
	return id
}

// An object is a JSON object with its members in their order.
type object []property

type property struct {
	name  string
	value jsontext.Value
}

// get returns a member; nil if it is missing.
func (o object) get(name string) jsontext.Value {
	for _, p := range o {
		if p.name == name {
			return p.value
		}
	}
	return nil
}

// values returns the members by name.
func (o object) values() map[string]jsontext.Value {
	all := make(map[string]jsontext.Value, len(o))
	for _, p := range o {
		all[p.name] = p.value
	}
	return all
}

func (o *object) set(name string, value jsontext.Value) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, property{name, value})
}

// sort puts the members into the order of a shape.
func (o object) sort(s *shape) {
	order := func(p property) int {
		return slices.IndexFunc(s.Members, func(m member) bool { return m.Name == p.name })
	}
	slices.SortStableFunc(o, func(a, b property) int { return cmp.Compare(order(a), order(b)) })
}

// text returns the object as JSON.
func (o object) text() jsontext.Value {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(p.name))
		b.WriteByte(':')
		b.Write(p.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func parseObject(text jsontext.Value) (o object, ok bool) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if d.PeekKind() != '{' {
		return nil, false
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		p := property{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		p.value = value.Clone()
		o = append(o, p)
	}
	return o, true
}

func parseArray(text jsontext.Value) (elements []jsontext.Value, ok bool) {
	return elements, text.Kind() == '[' && json.Unmarshal(text, &elements) == nil
}

// quote returns a text as JSON. Texts of forms that are not UTF-8 have replacement characters.
func quote(text string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return jsontext.Value(`""`) // not with valid UTF-8
	}
	return b
}
