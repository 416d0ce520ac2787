"""Requests in everyday words, as pools that `grammar` splits: what people say instead of `add` and `divide`.

`EXPRESSIONS` are for the frames of `requests` and for `FRAMES`, which are the frames of hasty talk; `whole` texts need
none. Operands are as in `requests`. `{a}` is not below `{b}` in differences, and both are counts.
Only data, no logic. Try it: `pytest tests/data/test_wording.py -k everyday`.
"""

__all__ = ["EXPRESSIONS", "FRAMES"]

# fmt: off
# By the forms of `EXPRESSIONS` that fit `{x}`: `{X}` with a capital letter.
FRAMES: dict[str, tuple[str, ...]] = {
    "symbols words nouns": (
        "(need|I need|I want|we need|give me|get me|show me|looking for) {x}", "(and|so|then|ok) what (is|about) {x}?",
        "(How|What) about {x}?", "(do|run|crunch|try|check) {x}", "(can|could|would) (you|somebody|anyone) do {x}(?|)",
        "what (would|will|does|might) {x} (be|come out as|come out to|work out to|end up as)(?|)",
        "(any idea|does anyone know|who knows|do you know) (what {x} is|how much {x} is|{x})(?|)",
        "{x} (comes|works out|amounts|boils down) to (what|how much|which number)(?|)",
        "{x} (is what|is how much)(?|)", "(figure|work|puzzle|sort) out {x}( for me|)",
        "(I am|we are) stuck (on|with) {x}. What is it?", "(my|the) (question|problem|task|thing) is {x}",
        "(tell|remind|show) me (what {x} is|{x})( again|)", "(I make|I got|we get) something else, what is {x}(?|)",
        "what (number|value|amount) (is|do you get for) {x}(?|)",
        "(somebody|my boss|my teacher|the form|the quiz) (wants|asks for|needs) {x}",
        "(answer|result|value) of {x}(?|)",
        "{x}, (how much is that|what is that|what's the answer|what's the number|what do you get)(?|)",
        "{x}, (how much|what|which number)(?|)", "for {x} (I need the answer|what do I write|what do I put down)(?|)",
        "(what's|whats|what is|hows much) {x} (equal to|in total|exactly|as a number|altogether)(?|)",
        "if I (type|enter|put|punch) {x} (in|into a calculator), what (comes out|do I see|will it show)(?|)",
        "(let|let's) (do|work out|figure out|see) {x}(.|)", "help (me |)(with|on) {x}(.|)",
        "what (should|must|do) I (write|fill in|get) for {x}(?|)",
        "(kindly|please be so kind and) (tell|give|show) me {x}(.|)", "(please |kindly |)tell {x}(.|)",
        "{x} in (my head|one line) is hard(.|,|) what is it(?|)", "{x} (gives|makes|means) (me |)what(?|)",
        "(I|we) (forgot|forget|never learned|can't remember|always forget) how to (do|solve|work out) (this|this "
        "one|it): {x}",
        "(my|our|the) (son|daughter|kid|class|neighbour) (is stuck on|struggles with|cries over|can't do|keeps "
        "asking about) {x}(, what is it|, help|, what's the answer|. How much is it)(?|)",
        "(everyone|nobody|my sister|the app) (says|gets|has) something else for {x}, (what is right|which is it|what "
        "do you get)(?|)",
        "(we|they) (argue|were arguing|have a bet|disagree) about {x}(, what's the right number|. What is it|, who "
        "knows it)(?|)", "(bet|I bet) you (can't|cannot|can) do {x}(.|)",
        "(pop quiz|quick quiz|trivia|brain teaser|riddle|challenge|test|easy one|warm-up)(:|,| time:) {x}(?|)",
        "(check|verify|confirm) {x} for me, what (is it|comes out|do you get)(?|)",
        "(it says|the form says|my notes say|the recipe says|the sheet says) {x}, (so how much is it|what do I "
        "write|what is that|what goes there)(?|)",
        "(never mind the rest|forget the rest|ignore the above|actually no|on second thought|anyway)(,|:|...) (just "
        "give me|what is|tell me|do) {x}(?|)",
        "\"{x}\"(, what is it| - the answer please|, how much is that|, just the number| = what)(?|)",
        "{x}(, and that is| is equal to| equals| would be| should be)(:|...|?|)",
        "{x} (or I leave|or else|before lunch|and be quick|and nothing else|now|if you can|I mean)(.|)",
        "(Do you happen to know|Would you know|Can you say|I would like to know|I'd like|I wish to know) {x}(?|.|)",
        "(Kindly|Please) (provide|supply|state|return|output|evaluate|report) (the result of |the value of |){x}( as "
        "one number| for me| exactly|)(.|)",
        "(Return|Show|Write|Give|Print|State) (me |)(the result of|the value of|the outcome of) {x} (as a "
        "(bare|plain|single|whole) number|on its own line|in figures|without commas|and nothing else)(.|)",
        "(Your task|The task|The job|The exercise) (is|is to find|is to get) {x}(. Only the result.|.|)",
    ),
    "verbs": (
        "(say|suppose|imagine|let's say|assume) (I|you|we) {x}. (What's the answer|What comes out|How much is that|"
        "What's the new number)?",
        "if (i|I|you|we|they) {x}, (what's the answer|how much is it|what comes out|what does it come to)(?|)",
        "(could|can|would) (you|someone|anybody) {x}( real quick| please| for us|)(?|)", "{x} (for me|please|now)",
        "(need|needs|got|have) to {x}(, help|, what is it|)", "when (i|I|you) {x}, (it is|I get|that makes|that is)",
        "how (would|do) (you|I) {x}, and what (do I|do you) get(?|)", "(go|just|simply|quickly) {x}(.|)",
        "(kindly|please kindly|be so kind and|be nice and|do me a favour and) {x}(.|)",
        "(could|would) you be so kind (as to|and) {x}(?|)", "(would|do) you mind if I ask you to {x}(?|)",
        "{X}, (what's that|how much is it|what is the answer)?", "{X} (and give me|then show) the number.",
        "(trying|want|have|about) to {x}, (what is the answer|what should I get)(?|)",
        "(I|we) (forgot|forget|never learned|can't remember) how to {x}, (what is it|help|what comes out)(?|)",
        "(the|my) (form|sheet|teacher|recipe|boss|quiz|manual) (says|wants me|tells me|asks me) to {x}(. What do I "
        "write|, what is it|. Result please|, how much is that)(?|)",
        "(Your task|Your job|The task|The exercise) is to {x}. (Write only the answer|Answer with a number|Give the "
        "result|Write nothing else).", "{X} and (tell|show|give) me( the result| what you get| the number|)(.|)",
        "{X} (or I leave|before lunch|and be quick|and nothing else|I mean|lol|thx)(.|)",
        "(pop quiz|quick one|easy one|last one|challenge)(:|,) {x}(?|.|)",
    ),
}

EXPRESSIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "+": {
        "symbols": ("{a} + {b}", "{a}+{b}"),
        "words": (
            "{a} plus {b}", "{a} and {b} (added|summed|combined|added up|put together|added together)",
            "{a} and another {b}", "{a} (combined|together|added up|totalled) with {b}", "{b} on top of {a}",
            "{a} with {b} (more|added|on top|extra)", "{b} more than {a}", "{a} and then {b} more",
        ),
        "nouns": (
            "the (combined|added|total|joint) (value|amount|number) of {a} and {b}", "the sum {a} plus {b}",
            "the (sum|total) (when|if) (you add|adding|I add) {a} (and|to) {b}", "the (sum|total) for {a} and {b}",
            "how much {a} and {b} (make|come to|are|add up to) (together|in total|altogether)",
            "(a total|the sum|the addition) of {a} plus {b}", "what {a} and {b} (add up|sum|come) to",
        ),
        "verbs": (
            "(tack|put|add|pile|stack) {b} (onto|on to|on top of) {a}", "(total|tally|sum|add|tot) up {a} and {b}",
            "(total|tally) {a} (and|with) {b}", "(raise|bump|boost|push|lift) {a} (up |)by {b}",
            "(combine|join|merge|pool) {a} (and|with) {b}", "(go|move|count) up (from {a} by {b}|{b} from {a})",
            "(have|start with|take) {a} and (get|put in|throw in|receive) {b} more", "plus {a} and {b}",
            "(add|sum) both {a} and {b}", "make {a} (bigger|larger) by {b}", "give {b} more to {a}",
        ),
        "whole": (
            "(sum|total|add|adding|plus|addition|in total)(:|) {a} and {b}(?|)", "{a} and {b}, (added|total|sum)(?|)",
            "(what|how much) (do|would|will) {a} (and|with|plus) {b} (add up to|come to|make|give|give me|total)(?|)",
            "{a} and {b} (make|makes|gives|comes to|is together|together is|total|altogether is)",
            "(I|We) (have|had|got|own|saved) {a} and (get|got|found|won|earned) {b} (more|extra). (How much is it "
            "now|What's my total|How many in all|What do I have)?",
            "(prices|costs|bills|scores|payments|lengths) (are|were) {a} and {b}, (total|sum|add them|what's the "
            "total)(?|)", "(numbers|values|amounts)(:|) {a} and {b}. (Total|Sum|Added up|Together)?",
            "(paid|spent|earned|lost|got) {a} (then|and then|and) {b}, how much (in all|in total|altogether)(?|)",
            "(yesterday|before|first) {a}, (today|after|then) {b} more, (total|in all|altogether)(?|)",
            "(add|sum|total|combine) (these|those|the) (invoices|bills|amounts|scores|weights|boxes)(:|,|...) {a} "
            "(and|plus) {b}(. What's the total|, please|. Result|)(?|.|)",
            "(paid|spent|counted|got|have) {a} (for|on|in) (rent|food|front|kitchen|first box) and {b} (for|on|in) "
            "(shoes|back|garage|second box), (add them up|add those|what's the sum|sum please)(?|.|)",
            "(invoices|scores|expenses|readings|miles) (were|are) {a} and {b}, (add them|sum them up|the total)( "
            "please|)"
            "(.|?|)", "(put|bring) {a} and {b} together with a plus( sign|)(.|)",
        ),
    },
    "-": {
        "symbols": ("{a} - {b}", "{a}-{b}", "{a} − {b}"),
        "words": (
            "{a} minus {b}", "{a} less {b}", "{a} without {b}", "{a} take away {b}",
            "{a} with {b} (gone|less|removed|taken off|knocked off)", "{b} (off|away from) {a}", "{a} subtract {b}",
            "{a} after losing {b}", "{b} less than {a}", "{a} (lowered|cut|reduced|dropped) by {b}",
        ),
        "nouns": (
            "the (gap|distance|difference) between {a} and {b}", "what is left of {a} (after|without|minus) {b}",
            "the (rest|amount left) (when|if|after) {b} (goes|is taken|is gone|comes) (off|from|out of) {a}",
            "how much (more|bigger|larger|higher) {a} is than {b}",
            "the change from {a} (after|if I pay|if I spend) {b}", "how much {a} (beats|tops|exceeds) {b} by",
            "{a} minus {b} exactly",
        ),
        "verbs": (
            "(decrease|reduce|lower|diminish) {a} by {b}",
            "(knock|take|cut|shave|chop|strip) {b} (off|off of|from|out of) {a}",
            "(drop|cut|shrink|trim|bring down) {a} by {b}",
            "(lose|spend|use|give away|hand out|pay) {b} (of|out of|from) {a}", "(deduct|withdraw) {b} from {a}",
            "(have|start with|own|begin with) {a} and (lose|spend|use up|give away|pay) {b}",
            "(go|move|count|step) (down|back) {b} from {a}", "take {b} away out of {a}",
            "make {a} (smaller|less) by {b}", "take {b} (off|away off) {a}",
        ),
        "whole": (
            "{b} (from|off) {a}(, what's left| leaves what| leaves|)(?|)", "{b} out of {a}(, what's left| leaves)(?|)",
            "(subtraction|difference)(:|) {a} and {b}(?|)",
            "how (much|many) (more|extra) (do I need|is missing|must I save|to go) (to get|to go|to reach) from {b} "
            "to {a}(?|)",
            "(what|how much) (do I|must I|should I) add to {b} to (get|have|end up with|make it) {a}(?|)",
            "(had|have|got|with|starting with|there were) {a}, (used|spent|lost|gave away|sold|ate|paid) {b}, "
            "(what's left|how many left|how much is left|remaining|what remains)(?|)",
            "(I|We|She) (had|have) {a} and (used|spent|lost|sold) {b}. (What's left|How much is left|How many "
            "remain)?",
            "(it|the bill|the price|the trip) (costs|was|is) {a} and I (have|gave|paid) {b}. How much (is "
            "missing|more do I need|is left to pay)?", "{a}, (now|then) (subtract|remove|take away) {b}(?|.|)",
            "how far is it from {b} to {a}(?|)",
            "if {a} (falls|drops|sinks|decreases|goes down) by {b}, what (is the new number|is left|remains)(?|)",
            "{a} (goes|went|drops|fell) down (by |){b}, (now what|what is it now|new number)(?|)",
            "(I|we) (had|have) {a} in (my account|stock|the till|the box) and (the dentist|the shop|a client|my son) "
            "took {b}. (Can you subtract that|Please subtract|Subtract that|What's left)(?|.|)",
            "(expected|ordered|planned) {a}, (counted|got|used) {b}, (what's the difference|subtract "
            "please|difference|how much is missing)(?|.|)",
            "{a} (euros|dollars|pages|miles|seats|boxes) minus {b}(. How many|, how much is that|. What is left|)(?|)",
            "(how much|how many) (bigger|larger|more|greater|higher|older) is {a} than {b}(?|)",
            "by how much is {a} (bigger|larger|more|greater|higher|better) than {b}(?|)",
            "(how far|how much) apart are {a} and {b}(?|)",
            "(minuend|first) {a}, (subtrahend|second) {b}, (what's the |)difference(?|)",
            "the (old|earlier) (reading|price|value) was {b}, the new one is {a}(, what's|. What is|, give me|, "
            "find) the (increase|change|difference)(?|)",
        ),
    },
    "*": {
        "symbols": ("{a} * {b}", "{a}*{b}", "{a} x {b}", "{a} × {b}", "{a}×{b}"),
        "words": (
            "{a} times {b}", "{a} multiplied (with|by) {b}", "{a} (lots|groups|sets|bunches|copies|piles) of {b}",
            "{b} (times|multiplied) with {a}", "{a} taken {b} times",
            "{b} times (as much as|the number|the amount) {a}", "{a} multiplied out by {b}", "{a} multiply {b}",
            "{a} (by|times) {b} multiplied",
        ),
        "nouns": (
            "the product (when|if) (you multiply|multiplying) {a} (and|by|with) {b}", "{a} times {b} exactly",
            "the product {a} times {b}", "what {a} and {b} multiply to", "the multiplication {a} by {b}",
            "how many {a} (rows|boxes|bags|packs|shelves) of {b} (make|are)", "the (area|size) of {a} by {b}",
        ),
        "verbs": (
            "(multiply|times) {a} (by|with|and) {b}", "(multiply|times) together {a} and {b}",
            "multiply out {a} and {b}", "take {b} lots of {a}",
            "(make|buy|get|have) {a} (packs|boxes|sets|groups) of {b}", "(scale|blow) {a} up {b} times",
        ),
        "whole": (
            "(product|multiply|multiplication|times)(:|) {a} and {b}(?|)",
            "{a} and {b}, (multiplied|product|times each other)(?|)",
            "{a} and {b} (multiplied|times each other|as a product)(?|)",
            "(what|how much) (is|are|would be) {a} (of them|items|tickets|pieces|bottles|books) at {b} "
            "(each|apiece|a piece|dollars each)(?|)",
            "{a} (boxes|bags|packs|rows|crates|tables|teams) (with|of) {b} (each|in each|in every one), (total|how "
            "many|how many in all)(?|)",
            "(I|We) (buy|order|need|sell) {a} (packs|boxes|bags) of {b}. (How many|How many is that|What's the "
            "total)?", "{b} (a day|per day|each day) for {a} days, how (much|many) (is that|in total|altogether)(?|)",
            "{b} (an hour|per hour|each hour) for {a} hours, how (much|many) (is that|in total|altogether)(?|)",
            "{b} (a week|per week|each week) for {a} weeks, how (much|many) (is that|in total|altogether)(?|)",
            "(each|every) (box|bag|row|pack|class|car) has {b}, (there are|I have|we got) {a} of them, (how many is "
            "that|total)(?|)", "(area|surface) of {a} by {b}(?|)",
            "(order|stock|set|load) of {a} (cartons|boxes|crates|packs) with {b} (cans|eggs|pens|bottles) each. "
            "(Please multiply|Multiply|How many in all|Multiply that)(?|.|)",
            "{a} (tiles|seats|plants|cars) per row and {b} rows, (multiply those|please multiply|so multiply|times "
            "each other)(. How many|)(?|.|)",
            "(number of seats|seats|tiles|chairs): {a} (per|in each|a) row times {b} rows(. Total|, total|. How "
            "many|)(?|)",
            "(tickets|books|shirts|chairs) (cost|are) {a} and we (want|need|buy) {b} of them, (multiply|please "
            "multiply|pls multiply|what do we pay)(?|.|)",
            "{a} (times|multiplied by) {b} (for (a|my) (quote|plan|budget|report)|as an estimate|for the kitchen)(, "
            "only the number| please|)(.|)",
        ),
    },
    "/": {
        "symbols": ("{a} / {b}", "{a}/{b}", "{a} ÷ {b}", "{a}÷{b}"),
        "words": (
            "{a} divided (by|with) {b}", "{a} split (by|into|between|among|over) {b}", "{a} over {b}",
            "{a} shared (by|between|among|out between|equally by) {b}",
            "{a} into {b} (parts|pieces|groups|equal parts)", "{a} div {b}", "{a} divide {b}",
        ),
        "nouns": (
            "the quotient (when|if) (you divide|dividing) {a} by {b}", "the division {a} by {b}",
            "how many times {b} (goes into|fits in|fits into|is in) {a}",
            "how often {b} (goes into|fits in|is in) {a}",
            "each share (of|if) {a} (split|goes|shared) (between|to|among) {b}", "{a} divided by {b} exactly",
        ),
        "verbs": (
            "(divide|split|share) {a} (by|between|among) {b}", "(split|break) {a} (into|up into) {b}",
            "(split|break|cut|chop) {a} into {b} (groups|parts|pieces|equal bits)",
            "(share|hand|deal) out {a} (to|between|among) {b} (people|kids|friends)",
            "(fit|put) {a} into {b} (equal groups|boxes|bags)", "(split|cut|share) {a} in {b} (equal |)(parts|pieces)",
        ),
        "whole": (
            "(quotient|divide|division)(:|) {a} (by|and|over) {b}(?|)", "how many (times |){b} in {a}(?|)",
            "{a} (for|between|among|split by|shared by|divided among) {b} (people|kids|friends|teams|of us), (how "
            "much|how many|what) (each|per person|for each|does each get)(?|)",
            "how many times (can you fit|do you get|can I take) {b} (in|into|out of|from) {a}(?|)",
            "{b} (divides|divided|goes) into {a} how many times(?|)", "how many times does {b} divide into {a}(?|)",
            "{b} into {a} (goes|is|goes how many times)(?|)",
            "(I|We) (have|got|need) {a} (for|to share among|to split between) {b} (people|kids|groups). (How many "
            "each|What does each get|How much per person)?",
            "how many (groups|boxes|packs|bags|teams) of {b} (can I make from|in|out of|from|fit in) {a}(?|)",
            "{a} (in|into) groups of {b}, how many groups(?|)", "{a} (in|into) bags of {b}, how many bags(?|)",
            "(for|in) (the|my) (seating plan|budget|game|trip): {a} (guests|people|children|players) divided by {b} "
            "(tables|groups|cars|teams)(. How many each|)(?|.|)",
            "(loan|debt|rent|bill) of {a} divided (over|by) {b} (payments|months|weeks|people)(, what's the monthly "
            "amount|, how much each|. What is one payment|)(?|.|)",
            "(I|we) (pack|sort|put) {a} (eggs|pens|books|cans) in (trays|boxes|bags) of {b}, (pls |please |)divide(. "
            "How many boxes| so I know how many|)(?|.|)",
            "(We need to|Please|Can you|I want to) (share|split|divide) (a bill of |){a} "
            "(euros|dollars|sweets|coins) (equally |)(among|between) {b} (friends|kids|of us|people)(. Divide "
            "please|)(?|.|)",
            "{a} (dollars|euros|miles|pages) in {b} days, how (much|many) (a|per|each) day(?|)",
            "{a} (dollars|euros|miles|pages) in {b} hours, how (much|many) (an|per|each) hour(?|)",
            "what number times {b} (gives|makes|is) {a}(?|)",
        ),
    },
}
# fmt: on
