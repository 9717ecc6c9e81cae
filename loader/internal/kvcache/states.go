package kvcache

import (
	"slices"
	"strings"
)

// setStates sets the number of values in the state of each recurrent layer. If it cannot, it notes the reason as unknown. It also notes a
// configuration that has the size of a state, but does not tell the kinds of layers.
func (p *planner) setStates() {
	var recurrent []*Layer
	for i := range p.plan.Layers {
		if l := &p.plan.Layers[i]; l.Kind == Recurrent || l.Kind == Both {
			recurrent = append(recurrent, l)
		}
	}
	values, names := p.stateValues()
	if values >= maxNumber { // far more than any state has
		p.invalidSizes = append(p.invalidSizes, names...)
	}
	switch {
	case len(recurrent) == 0:
		if values > 0 && p.assumesAttention {
			p.addUnknown("kv_bytes", "the configuration has the size of a recurrent state, and does not say which layers recur: none is counted so")
		}
		return
	case len(p.invalidSizes) > 0:
		p.addUnknown("state_bytes", "the configuration gives the state of recurrent layers (%d) a size that none has: %s", len(recurrent), strings.Join(p.invalidSizes, ", "))
		return
	case values == 0:
		p.addUnknown("state_bytes", "the configuration does not tell how large the state of recurrent layers (%d) is", len(recurrent))
		return
	}
	for _, l := range recurrent {
		l.State = values
	}
}

// stateRule says how many values the state of a recurrent layer has, in configurations with a number under each of names. values gets
// these numbers in the order of names. It asks p for numbers that may be missing.
type stateRule struct {
	names  []string
	values func(p *planner, n []int) uint64
}

var stateRules = []stateRule{
	// GGUF.
	{[]string{"*.wkv.head_size", "hidden_size"}, func(p *planner, n []int) uint64 {
		shifts, ok := p.sizeOrLeast(0, "*.token_shift_count")
		if !ok {
			shifts = 2
		}
		return Mul(n[1], n[0]+shifts)
	}},
	{[]string{"*.shortconv.l_cache", "hidden_size"}, func(p *planner, n []int) uint64 { return Mul(n[0]-1, n[1]) }},
	{[]string{"*.kda.head_dim", "num_attention_heads", "*.ssm.conv_kernel"}, func(p *planner, n []int) uint64 { return deltaAttentionValues(n[1], n[0], n[2]) }},
	{[]string{"*.ssm.conv_kernel", "*.ssm.inner_size", "*.ssm.state_size"}, func(p *planner, n []int) uint64 {
		groups, _ := p.sizeOrLeast(0, "*.ssm.group_count")
		return stateSpaceValues(n[0], n[1], groups, n[2])
	}},
	// Gated delta networks: Qwen3-Next.
	{[]string{"linear_conv_kernel_dim", "linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads", "linear_value_head_dim"}, func(p *planner, n []int) uint64 {
		return Add(Mul(uint64(max(n[0]-1, 0)), Add(Mul(2, n[1], n[2]), Mul(n[3], n[4]))), Mul(n[3], n[2], n[4]))
	}},
	// Mamba-2: Granite 4, Bamba, Falcon-H1, then Nemotron-H, Mamba-2 itself and Zamba2.
	mamba2("mamba_d_head", "mamba_d_conv", "mamba_n_heads", "mamba_n_groups", "mamba_d_state"),
	mamba2("mamba_head_dim", "conv_kernel", "mamba_num_heads", "n_groups", "ssm_state_size"),
	mamba2("head_dim", "conv_kernel", "num_heads", "n_groups", "state_size"),
	mamba2("", "mamba_d_conv", "n_mamba_heads", "mamba_ngroups", "mamba_d_state"),
	// Mamba: Jamba, then Mamba itself.
	{[]string{"mamba_d_conv", "mamba_expand", "mamba_d_state"}, func(p *planner, n []int) uint64 {
		return stateSpaceValues(n[0], p.innerChannels(0, ""), 0, n[2])
	}},
	{[]string{"conv_kernel", "intermediate_size", "state_size"}, func(p *planner, n []int) uint64 { return stateSpaceValues(n[0], n[1], 0, n[2]) }},
	// Short convolutions (LFM2) and RecurrentGemma.
	{[]string{"conv_L_cache", "hidden_size"}, func(p *planner, n []int) uint64 { return Mul(n[0]-1, n[1]) }},
	{[]string{"conv1d_width", "lru_width"}, func(p *planner, n []int) uint64 { return Mul(n[0], n[1]) }},
	// Kimi.
	{[]string{"linear_attn_config/num_heads", "linear_attn_config/head_dim", "linear_attn_config/short_conv_kernel_size"}, func(p *planner, n []int) uint64 {
		return deltaAttentionValues(n[0], n[1], n[2])
	}},
}

// mamba2 returns the rule for how many values a layer of Mamba-2 keeps. names are four names in the configuration, for these numbers: the
// width of a convolution, the heads, the groups, and the sums of the state. headSizeName is the name of the size of a head, or "" if the
// configuration has none.
func mamba2(headSizeName string, names ...string) stateRule {
	return stateRule{names, func(p *planner, n []int) uint64 {
		return stateSpaceValues(n[0], p.innerChannels(n[1], headSizeName), n[2], n[3])
	}}
}

// stateValues returns how many values the state of one recurrent layer has: the inputs that its convolution still needs, and the sums that
// it carries on. names are the names of the numbers in the first rule that fits. If no rule fits, values is 0.
func (p *planner) stateValues() (values uint64, names []string) {
	for _, rule := range stateRules {
		if n, found := p.sizes(rule.names...); found {
			return rule.values(p, n), rule.names
		}
	}
	if n, ok := p.sizes("num_attention_heads"); ok && strings.HasPrefix(p.arch, "minimax") { // a square matrix for each head
		headSize, ok := p.sizeOrLeast(1, "head_dim")
		if !ok {
			hidden, _ := p.sizeOrLeast(1, "hidden_size")
			headSize = hidden / n[0]
		}
		return Mul(n[0], headSize, headSize), []string{"num_attention_heads", "head_dim"}
	}
	return 0, nil
}

// sizes returns the numbers under names. If a number is not valid or less than 1, it notes the name in p.invalidSizes. It returns 1
// for that number, a divisor that does no harm. If a name has no value, ok is false and nothing is noted.
func (p *planner) sizes(names ...string) (list []int, ok bool) {
	if slices.ContainsFunc(names, func(name string) bool { return !p.has(name) }) {
		return nil, false
	}
	for _, name := range names {
		n, _ := p.sizeOrLeast(1, name)
		list = append(list, n)
	}
	return list, true
}

// sizeOrLeast returns the number under name. If the number is smaller than the argument least, or not from 0 to maxNumber, it notes the
// name in p.invalidSizes and returns least. ok is false if the configuration has no value under name.
func (p *planner) sizeOrLeast(least int, name string) (n int, ok bool) {
	if !p.has(name) {
		return 0, false
	}
	if n, ok = p.int(name); !ok || n < least {
		p.invalidSizes = append(p.invalidSizes, p.withArchitecture(name))
		n = least
	}
	return n, true
}

// innerChannels returns how many channels a Mamba layer has: mamba_d_ssm, or else heads times the number under headSizeName, or else
// hidden_size times mamba_expand or expand. It notes the name of a factor in p.invalidSizes if the product is too large.
func (p *planner) innerChannels(heads int, headSizeName string) int {
	if n, ok := p.sizeOrLeast(1, "mamba_d_ssm"); ok {
		return n
	}
	factor, sizeName := heads, headSizeName
	size, ok := p.sizeOrLeast(1, sizeName)
	if !ok {
		sizeName = "hidden_size"
		size, _ = p.sizeOrLeast(1, sizeName)
		if factor, ok = p.sizeOrLeast(1, "mamba_expand"); !ok {
			factor, _ = p.sizeOrLeast(1, "expand")
		}
	}
	channels := cappedProduct(factor, size)
	if channels == maxNumber {
		p.invalidSizes = append(p.invalidSizes, sizeName)
	}
	return channels
}

// stateSpaceValues returns how many values a state space layer keeps: (conv−1)·(inner + 2·groups·state) inputs of its convolution of
// width conv, and inner·state sums of its inner channels. It returns 0 if there are no channels.
func stateSpaceValues(conv, inner, groups, state int) uint64 {
	if inner == 0 {
		return 0
	}
	return Add(Mul(uint64(max(conv-1, 0)), Add(uint64(inner), Mul(2, groups, state))), Mul(inner, state))
}

// deltaAttentionValues returns how many values a layer of Kimi's delta attention keeps: 3·(conv−1)·heads·size inputs of three
// convolutions of width conv, and heads·size·size values of a square matrix for each head.
func deltaAttentionValues(heads, size, conv int) uint64 {
	return Add(Mul(3, conv-1, heads, size), Mul(heads, size, size))
}
