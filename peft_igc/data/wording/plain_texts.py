"""Texts that ask for no calculation, as pools that `grammar` splits.

Kinds: copying (`COPY` instructions for any `CONTENT`), counting words, dates, questions about numbers or about an
expression that is not to be calculated (`ABOUT`), talk without numbers, prose, and questions about the facts of
`stories`. `PLAIN` contains lines by kind and completion. Lines may have alternatives. Fields: numbers {a} {b} {c},
digits {d} {e}, {spaced} {joined} {first} {last} digits of {a}, {low} and {high} of {a} and {b}, {words} {word}
{count}, {date} {day} {month} {year}, {name} {other} {thing} {city}; {x} is a content in `COPY`, an expression in
`ABOUT` and `MENTIONS`. Only data, no logic. Try it: `pytest tests/data/test_wording.py -k silent`.
"""

__all__ = ["ABOUT", "CONTENT", "COPY", "KINDS", "MENTIONS", "PLAIN"]

KINDS = ("copying", "counting", "dates", "questions", "talk", "prose", "stories")

# fmt: off
COPY = (
    "(Repeat|Copy|Say|Echo|Type|Print|Write): {x}", "(Repeat|Say|Write|Type) (this|that|the following): {x}",
    "repeat: {x}",
    "(Please|Now|Just) (repeat|copy|write|say|type)( this|): {x}", "(Repeat|Say|Speak) after me: {x}",
    "(Copy|Repeat) this text: {x}",
    "(Repeat|Copy|Write) (exactly|word for word|once more|again): {x}",
    "(Can|Could|Would) you (repeat|copy|write) this( for me|)? {x}",
    "(Repeat|Copy) what I (say|write|type): {x}", "(Write|Type) (it|this) (down|again): {x}",
    "Do not (calculate|solve|add). (Only|Just) repeat: {x}",
    "(Repeat|Copy|Say) (it |this |)without (solving|calculating) it: {x}",
    "Read (this|it) (aloud|to me|back to me): {x}", "(Output|Echo|Quote) (only |)this: {x}",
    "Write \"{x}\"(.| again.| once more.)", "(Repeat|Say) \"{x}\"(.| again.| for me.|, please.)",
    "My (text|message|note) is: {x} (Repeat|Copy) it.",
    "(Translate|Put) into French: {x}", "(Write|Put|Set) in (capitals|bold|quotes): {x}",
    "(Spell|Read) (it |this |)out: {x}", "(Remember|Keep|Store) this: {x}",
    "(Send|Forward|Post) this (text|message): {x}",
    "Here is a (text|line|note): {x}\n(Copy|Repeat) it.",
    "(Reverse|Shorten|Rephrase) this: {x}", "(Echo|Print|print|echo) \"{x}\"",
    "(How do you|How would you) (say|read|write) this( aloud|)? {x}",
)
CONTENT = (
    "{a}", "{a}", "(number|code|ticket|page|room|order) {a}", "{a} and {b}", "{a} and {b}",
    "(numbers|codes|pages|rooms) {a} and {b}", "{a}, {b}", "{a}, {b}(,|) and {c}",
    "{a} {b}( {c}|)", "{a}( + | - | * | / |+|-|*|/| x | × | ÷ ){b}",
    "{a} (plus|minus|times|divided by|over|added to) {b}", "the (sum|product|quotient|total) of {a} and {b}",
    "{a} (+|-|*) {b} =( {c}|)", "{a} (plus|minus|times) {b} (is|equals|makes) {c}",
    "(add|multiply|sum) {a} and {b}", "subtract {b} from {a}", "divide {a} by {b}",
    "{a} (+|-|*) {b} (+|-|*) {c}", "{a}.{d}", "{a}%( of {b}|)", "{date}", "{month} {day}, {year}", "{d}:30",
    "{words}", "{words}", "{word} {a} {word}", "{a} {word}( and {b} {word}|)",
    "{name} has {a} {thing}(.| and {b} pencils.)", "{a} {thing} (for|and|or) {b} (dollars|people|pencils)",
    "{a} to {b}", "from {a} (to|until) {b}", "{a} or {b}", "x = {a}(, y = {b}|)",
    "I (have|like|see) {a} {thing}.", "{a}-{b}", "({a}, {b})",
)
ABOUT = (
    "(Why|How|When) is {x} (hard|easy|useful|interesting)?", "Who (invented|asked|wrote) {x}?",
    "How do (I|you|we) (calculate|work out) {x} by hand? Only explain.",
    "(Explain|Describe|Show) how (to|one can) (calculate|work out|find) {x}.",
    "Which (operation|sign|operator) (is used|do you see) in {x}?",
    "(Do not|Don't|Never) (calculate|solve|compute|answer) {x}.",
    "What is the (first|second) number in {x}?",
    "Which number (comes first|comes last|is larger|is smaller) in {x}?",
    "How many (numbers|words|signs) are (there |)in {x}?",
    "Is {x} (an addition|a subtraction|a multiplication|a division|a sum|a product)?",
    "Is {x} (even|odd|negative|positive|larger than zero|a whole number)?", "(Estimate|Guess) {x} roughly.",
    "(Never mind|Forget|Ignore|Leave out) {x}. How are you?", "How do you (say|read|pronounce) {x}?",
    "What does {x} (mean|stand for)?", "(Write|Tell|Make up) a (story|poem|song) about {x}.",
    "Make up a word problem (for|with) {x}.", "Have you (learned|forgotten|seen) {x}( before|)?",
    "I (do not need|know|already solved|hate|wrote) {x}.",
    "Can you (solve|do) {x}( in your head|)? (Say yes or no.|Only yes or no.)", "(Draw|Paint) {x}.",
    "Is {x} harder than {c}?",
    "(Translate|Put) {x} into (German|French|words).", "What (kind|sort) of (task|exercise|problem) is {x}?",
    "Where (did|do) you (learn|see|need) {x}?",
)

# By kind and completion; "" means the fixed sentence `words.UNABLE`.
PLAIN: dict[str, dict[str, tuple[str, ...]]] = {
    "copying": {
        "{a}": (
            "(Repeat|Copy|Say|Write|Type|Echo|Print) {a}(.|, please.| again.)", "(repeat|echo|say) {a}",
            "(Repeat|Copy|Say|Write|Type) the (number|code|figure) {a}(.|, please.| again.)",
            "Please (repeat|copy|say|write|type) {a}(.| for me.)",
            "(Can|Could|Would) you (say|repeat|write|type) {a}( for me|)?",
            "(Write|Note|Jot) down {a}( for me|)(.|, please.)",
            "(print|echo|show)({a})", "Output: {a}", "{a}(.|?| =)", "What number is this: {a}?",
            "Which (number|code) did I (write|say|type)? {a}",
            "My (number|code|pin|ticket) is {a}. What is my (number|code|pin|ticket)?",
            "The (code|key|password|result|answer) is {a}. What is (it|the code|that)?",
            "Remember {a}. Which number did I tell you?", "x = {a}. What is x?", "If n is {a}, what is n?",
            "(What|How much) is {a}?", "(Calculate|Compute|Evaluate|Solve) {a}(.|)",
        ),
        "{a} and {b}": (
            "(Repeat|Copy|Say|Write|Print|Type) {a} and {b}(.|, please.| again.)", "(repeat|echo|say) {a} and {b}",
            "Please (repeat|copy|say|write) {a} and {b}(.| for me.)",
            "Write {a} (and then|next to|above|before) {b}.",
            "(Tell me|Repeat|Copy) the (numbers|codes|figures) {a} and {b}( again|)(.|, please.)",
            "(Repeat|Copy|Say) both( numbers| codes|): {a} and {b}",
            "I say {a} and {b}. What do I say?",
            "The (codes|numbers|keys) are {a} and {b}. What are (they|the codes|the numbers)?",
            "Which numbers did I (choose|take|write)? I (chose|took|wrote) {a} and {b}.",
            "Read {a} and {b} (to me|aloud|back).",
            "(Can|Could|Would) you (repeat|say|write) {a} and {b}( for me|)?", "Say {a}, then {b}.",
        ),
        "{b} and {a}": ("(Swap|Exchange|Switch) {a} (and|with) {b}.",
                        "Write {a} and {b} (in reverse order|backwards|the other way round).",
                        "Turn {a} and {b} around.", "Put {b} before {a}."),
        "{spaced}": ("Spell {a} digit by digit.", "(Spell|Say|Read|Write) the digits of {a}( one by one|).",
                     "(Write|Read|Say) {a} digit by digit.", "Which digits does {a} have?"),
        "{joined}": ("Join (the digits |){spaced}.", "Write {spaced} as one number.", "Put together: {spaced}"),
    },
    "counting": {
        "{count}": (
            "How many words (are in|are there in|do you see in|does this have)(:| here:) {words}(?|)",
            "(Count|Count up) the words(:| in:| of:) {words}", "(Number|Count) of words(:| in:) {words}",
            "(Please|Now) count the words: {words}", "{words}\nHow many words (is that|are these|do you count)?",
            "(Tell me|Say) how many words (these are|you see|there are): {words}",
            "(Can|Could) you count the words( in this|)? {words}",
            "The text is: {words}. How many words does it have?",
        ),
        "{word}": ("(What is|Which is|Tell me) the first word (of|in)(:|) {words}(?|)",
                   "Which word (comes first|is the first)( in|)(:|) {words}?", "(Repeat|Write|Say) the word {word}."),
        "": (
            "How many words (are in|are there in|does this have)(:| here:) {word} {a} {word} {b} {word}(?|)",
            "Count the (words|letters|numbers)( in|)(:|) {a} {word}, {b} {word}",
            "How many letters (are in|has) {word}?",
            "How many (digits|zeros|signs) (does {a} have|are in {a}|are there in {a})?",
            "Count (from|up from|down from) {a} to {b}.", "How many numbers are in this list: {a}, {b}, {c}?",
            "(Count|Number) the (words|letters) of {words} and {words}.",
            "How many times does (the digit {d}|{d}) (occur|appear) in {a}?",
            "How many sentences (are|is) this? {name} has {a} {thing}. {other} has {b}.",
        ),
    },
    "dates": {
        "{date}": ("(Repeat|Copy|Write|Say) the date(:|) {date}(.|)",
                   "(The|My|Our) (meeting|party|exam|trip) is on {date}. When is (it|the meeting|that)?",
                   "Today is {date}. (What day is today?|What is the date?)"),
        "{month}": ("(The|My) (meeting|party|exam) is on {day} {month} {year}. (In which|Which) month is (it|that)( "
                    "in|)?", "(Which|What) month is in {date}?",
                    "{name} (comes|came|leaves) on {month} {day}. In which month?"),
        "{year}": (
            "{name} was born in {year}. In which year was {name} born?",
            "(Which|What) year is (in|meant by) {date}?",
            "It (happened|began|ended) in {year}. When did it (happen|begin|end)?",
            "The (book|house|film) is from {year}. How old is it? Say only its year.",
            "What year is it? It is {year}.",
        ),
        "{d}:30": ("(The|My) (train|bus|plane) leaves at {d}:30. When does it leave?",
                   "It is {d}:30. What time is it?", "(Repeat|Say|Write) the time {d}:30."),
        "": (
            "What happened (in {year}|on {date}|on {month} {day})?", "Who was born (in {year}|on {date})?",
            "(What|Which) (day|weekday) (was|is) {date}?", "(Is|Was) {year} a leap year?",
            "Which is (earlier|later), {year} or {date}?",
            "From {year} to {a}, what changed?", "How is the weather in {city} on {date}?",
            "(Set|Put) an alarm for {d}:(15|45|00).", "(Remind|Call|Wake) me at {d} o'clock( on {date}|).",
            "The (meeting|film|lesson) lasts from {d}:00 to {e}:00.",
            "(I was|{name} was) born in {year} and moved to {city} in {a}.",
            "Between {year} and {a} (many people|they) lived (here|in {city}).",
            "{date} or {month} {day}: which (do you prefer|suits you)?",
            "(Book|Reserve) a (table|room|seat) for {d} on {date}.",
            "In {year}, {name} moved to {city}. Where did {name} move?",
            "(Is|Was) {month} {day}, {year} a (Sunday|holiday)?",
            "How is {date} written in (German|short|figures)?",
            "The (train|flight) {a} leaves on {date} at {d}:{e}0.", "{day}/{month}/{year}", "{year}-0{d}-1{e}",
            "{date}, {city}", "(Open|Closed) from {d} to {e}( on {date}|).",
        ),
    },
    "questions": {
        "{high}": ("Which (number |one |)is (larger|greater|bigger|higher)(:|,) {a} or {b}?",
                   "What is the (larger|greater|bigger) (number|one), {a} or {b}?",
                   "Is {a} or {b} (greater|larger|bigger)?", "(Find|Give|Say) the (maximum|larger one) of {a}, {b}."),
        "{low}": ("Which (number |one |)is (smaller|less|lower)(:|,) {a} or {b}?",
                  "What is the (smaller|lower) (number|one), {a} or {b}?",
                  "(Find|Give|Say) the (minimum|smaller one) of {a}, {b}."),
        "{a}": (
            "(Ticket|Number|Horse) {a} won( the prize|). Which (ticket|number|one) won?",
            "Flight {a} leaves (at noon|soon|now). Which flight is it?",
            "{name} lives at number {a}. (At which number|Where) does {name} live?",
            "{name} has {a} {thing}. How many {thing} does {name} have?",
            "There are {a} {thing} in the (box|bag). How many {thing} are in (the box|the bag|it)?",
            "The answer is {a}. What is the answer?", "The result was {a}. Repeat the result.",
            "{name} has {a} {thing} and {other} has {b}. How many {thing} does {name} have?",
            "(Bus|Train|Tram) {a} (stops in|goes to) {city}, (bus|train|tram) {b} does not. Which one does?",
            "Which comes first: {a} or {b}?",
            "What is the first number in {a}, {b}, {c}?",
            "(Take|Choose|Say) the first (number|one): {a} (and|or) {b}", "x = {a}, y = {b}. What is x?",
            "Choose {a} and not {b}.", "On Monday {a} guests came, on Sunday {b}. How many came on Monday?",
            "I have {a} {thing} and {b} pencils. How many {thing} do I have?",
            "First number: {a}. Second number: {b}. (Repeat|Say|Write) the first one.",
            "The numbers are {a} and {b}. Which (one |)comes first?",
        ),
        "{b}": (
            "{name} has {a} {thing} and {other} has {b}. How many {thing} does {other} have?",
            "Which comes last: {a} or {b}?", "What is the second number in {a}, {b}, {c}?",
            "What comes after {a} in {a}, {b}, {c}?", "x = {a}, y = {b}. What is y?",
            "On Monday {a} guests came, on Sunday {b}. How many came on Sunday?",
            "The red box holds {a} pens, the blue box {b}. How many are in the blue box?",
            "First number: {a}. Second number: {b}. (Repeat|Say|Write) the second one.",
        ),
        "{first}": ("What is the first digit of {a}?", "Which digit does {a} start with?"),
        "{last}": ("(Which|What) digit does {a} end with?", "What digit is at the end of {a}?"),
        "": (
            "Is {a} (larger|greater|smaller|bigger|more|less) than {b}?",
            "Is {a} (equal to|the same as|close to|far from|next to) {b}?",
            "Are {a} and {b} (the same|the same number|equal|different|close)?",
            "(Compare|Order|Sort|Rank) {a} and {b}.", "(Sort|Order|Shuffle|Rank)( these numbers|): {a}, {b}, {c}",
            "Put {a}, {b} and {c} in order.", "Which is closer to {a}: {b} or {c}?",
            "(Pick|Name|Choose|Guess) a number (between|from) {a} (and|to) {b}.",
            "(List|Say|Write) all numbers from {a} to {b}.", "Is {a} (even|odd|even or odd|prime|a large number)?",
            "(Write|Spell|Say|Put) {a} (in|as) words.", "How do you (say|write) {a} in (English|German|French)?",
            "Translate {a} (and {b} |)to Roman numerals.",
            "What do {a} and {b} have in common?", "What is (special|nice) about {a}( and {b}|)?",
            "What comes next: {a}, {b}, {c}?", "(Which|What) sign stands between {a} and {b} in {a} (+|-|*|/) {b}?",
            "Write a story about {a} {thing} and {b} dogs.",
            "Make up a word problem with {a} and {b}.", "Do you prefer {a} or {b}?", "(Is|Was) it {a} or {b}?",
            "(Does|Did) {name} have {a} or {b} {thing}?", "Who has more, {name} with {a} or {other} with {b}?",
            "Is {a} (between|among) {b} and {c}?",
            "(Who|What|Which) (weighs|is) more, {a} {thing} or {b} pens?", "How many people live in {city}?",
            "Why did {name} (buy|take|want) {a} {thing} and not {b}?", "{a} or {b}?", "Does {a} come before {b}?",
            "Where is room {a}, and where is room {b}?",
            "Page {a} of {b}: what is on it?", "Did {a} or {b} people come?",
            "What did {name} do with {a} {thing} on page {b}?", "Is version {d}.{e} newer than {e}.{d}?",
        ),
    },
    "talk": {
        "{words}": ("(Repeat|Say|Say this|Copy this|Echo|Write|Type): {words}",
                    "(Repeat|Copy|Say) (these words|this|after me): {words}"),
        "{thing}": ("{name} (likes|sells|wants) {thing}. What does {name} (like|sell|want)?",
                    "{name} (bought|found|saw) {thing} in {city}. What did {name} (buy|find|see)?",
                    "Repeat the word {thing}."),
        "{name}": ("(Hello|Hi), I am {name}. What is my name?", "{name} has {a} {thing}. Who has {thing}?",
                   "My (friend|sister|uncle) {name} lives in {city}. Who lives in {city}?"),
        "{city}": ("{name} lives in {city}. Where does {name} live?",
                   "(Room|House|Bus) {a} is in {city}. (In which city|Where) is it?"),
        "": (
            "(Add|Put|Write) {thing} (to|on) my list.", "(Add|Save) {a} to my contacts.",
            "Take {thing} from the table.", "(Divide|Split) the class into (groups|teams).",
            "(Multiply|Double) your (chances|efforts).", "Subtract nothing.", "What is the sum of it all?",
            "What (does|is) (plus|minus|times|equals)( mean|)?",
            "What is (a product|a sum|addition|division|a quotient)?", "What is a (minus|plus) sign for?",
            "How do I (divide|multiply|add) (large|small|two) numbers?",
            "(Explain|Teach) (addition|subtraction|division) to a child.",
            "What is the difference between (plus and times|a sum and a product)?",
            "Who invented (zero|numbers|the minus sign)?", "What is your favourite (number|colour|city)?",
            "Can you (calculate|add|count|multiply)?", "Are you good at (math|sums|counting)?",
            "Do you like (numbers|{thing}|{city})?", "Count the {thing}.", "How many {thing} are there?",
            "How (far|big|old) is {city}?", "How old is {name}?", "How much does (it|this|that) cost?",
            "(Hello|Hi|Hey)(!|, how are you?|, {name}.| there.)", "Good (morning|evening).",
            "How are you, {name}?", "Thank you, {name}.", "Goodbye, {name}.", "Who are you?", "What can you do?",
            "What is the (capital|flag|language) of (France|Peru|Egypt)?", "What is the opposite of {word}?",
            "What colour is the {word} house?", "What is the weather in {city}?",
            "Tell me (a joke|a story|about {city}|about {thing}).",
            "(Write|Sing) a (poem|song|text) about {thing}.", "Translate {words} into (German|French).",
            "What rhymes with {word}?", "Who is {name}?", "Where is {city}?", "What do you know about {thing}?",
            "Which is better, {thing} or {word}?", "Finish the sentence: {words}", "{words}(|?|.)",
            "Why are {thing} so popular in {city}?", "Describe {city} in a few words.",
            "Write a letter to {name} in {city}.", "Make a list of {thing}.", "Summarize this: {words}",
            "Is {words} a sentence?", "Who wrote (Hamlet|Faust)?", "What is (Python|a list in Python|a loop)?",
            "for i in range({a}):", "import numpy as np", "x = [{a}, {b}, {c}]", "git checkout {word}",
            "<div id=\"{a}\">{word}</div>", "def {word}(x): return x",
            "Double or nothing?", "Two plus what?", "Seven or eight?", "One, two, three",
            "What (times|sums) are these?", "Is it (more|less) or (less|more)?", "(Please|Just) answer (yes|no).",
        ),
    },
    "prose": {
        "": (
            "The score was {a} to {b}.( Who won?|)", "The score was {a}:{b}.( Who won?|)",
            "(Room|Flat|Office) {a} is on floor {b}.", "I have {a} {thing} and {b} pencils.",
            "{name} has {a} {thing} and {other} has {b}.", "Call me (on|at) {a}-{b}.",
            "My phone number is {a} {b} {c}.",
            "Chapter {a}, page {b}.", "Open the book on page {a} and read line {b}.", "Version {a}.{b} is out.",
            "The address is {a} Main Street, apartment {b}.", "(The|My|Our) numbers are {a} and {b}.",
            "Here are two numbers: {a} and {b}.", "{a} (and|or|to) {b}", "{a}, {b}", "{a} {b}",
            "{a}; {b}; {c}", "{a} = {b}", "I like the number {a}.", "My favourite numbers are {a} and {b}.",
            "{a} is my lucky number( and {b} is yours|).", "The flight {a} from {city} takes {b} minutes.",
            "The room is {a}m long and {b}m wide.", "The bag weighs {a}kg( and costs {b} dollars|).",
            "Save {d}% on everything.", "The temperature is {a}.{d} degrees.", "Order (number |){a} has {b} parts.",
            "Please book {a} seats for {b} May.", "Dear {name}, your order {a} was sent on {date}.",
            "{name}: see you at {d}:45 in {city}.", "It is {date} and {name} has read {a} pages.",
            "When {name} was {d}, {other} was {e}.",
            "(Last year|In {city}|Yesterday) {a} people (came|left) and {b} (stayed|watched).",
            "{name} called {a} times and wrote {b} letters.",
            "It costs {a} dollars more than the {b} dollars of last year.",
            "(He|She) won {a} to {b} (in {city}|last week).",
            "We divided {a} children into {b} groups.", "They took {a} of the {b} {thing}.",
            "{name} gave {other} {a} {thing} for {b} dollars.", "The sum of {a} dollars is due in {b} days.",
            "The product {a} has the price {b}.", "Each of the {a} rooms has {b} beds.",
            "{a} (times|minus|plus) is what (he|she) said(, and {b}|).",
            "Between {a} and {b} people (live in {city}|came).",
            "From page {a} to page {b} (nothing happens|it is dull).", "We drove {a} miles at {b} miles per hour.",
            "(About|Nearly|Over) {a} of {b} people agree.",
            "Bus {a} leaves at {d}, bus {b} at {e}.", "My {a} {thing} are worth {b} dollars.",
            "{name} is {a} and {other} is {b} (years old|days late).",
            "The {a} {thing} and the {b} pencils are in the box.",
        ),
    },
}

# Texts that name a calculation, at {x}, and ask for something else: somebody says it, a song is called so, it is to
# be translated, its sign is asked for. What stands around a request in chatty talk (`everyday.FRAMES`, `my boss asks
# {x}`) is close to these on purpose: only the whole sentence says what is asked. {w} is a number in words.
# By the forms of `requests.EXPRESSIONS` that fit.
MENTIONS: dict[str, tuple[str, ...]] = {
    "symbols words nouns": (
        # somebody says, hears, thinks or writes it
        "{name} (said|whispered|shouted|sang|mumbled|muttered|repeated) {x} (in the kitchen|at night|on the bus|in "
        "{city}|all day|in a dream|twice|to the dog|and left|with a smile).",
        "(My|Our|Her|His) (uncle|neighbour|grandmother|brother|cousin|coach|boss|dentist) (always|never|often) "
        "(says|said|quotes|hums|talks about) {x}( at breakfast| when it rains| for luck| to calm down|).",
        "I (heard|saw|read|found|noticed|remember|forgot|like|love|hate|fear) {x} (on the radio|on a wall|in a "
        "book|on the bus|in {city}|at school|in a film|on a shirt|yesterday|as a child).",
        "(Why|When|Where|How often) did {name} (say|mention|write|ask|shout|need|learn|teach|print) {x}( in {city}| "
        "at the party| on the phone|)?",
        "Who (says|said|wrote|taught|asked|painted|sang|shouted|came up with) {x}( first| in the film| on stage| at "
        "the meeting|)?",
        "(My|Our) (parrot|robot|toaster|phone|baby|dog|printer) (says|repeats|shows|learned|prints|understands) "
        "{x}(, funny, right|, isn't that cute| all the time|)(?|!|.)",
        "{name} and {other} (argued|talked|laughed|fought|joked|cried|wondered) about {x} (for an hour|at lunch|all "
        "evening|again|until midnight|on the train).",
        "(The|A|This|That) (teacher|actor|clown|singer|poet|judge|guide) who (said|sang|asked|forgot|wrote) {x} "
        "(was|is|looked|seemed) (kind|tired|famous|strange|from {city}|my friend).",
        "I (dreamed|thought|wrote|read|sang|talked) about {x}(. What does it mean| last night| once| and felt "
        "happy|)(?|.)",
        "Somebody (wrote|sprayed|painted|carved|scribbled) {x} (on my door|on the wall|on the table|in my book|on "
        "the car|in the snow).",
        "(Nobody|Everybody|No one|Hardly anyone) (in my class|at work|in {city}|here) "
        "(likes|knows|remembers|fears|understands) {x}.",
        # a name, a title, a secret
        "(My|Our|Her) (band|boat|cat|blog|team|podcast|channel|shop|café) is (called|named) {x}(. Is that a good "
        "name|. Do you like it|)(?|.)",
        "(The|My|This) (song|poem|film|chapter|game|painting|tattoo|sign|card|shirt) (says|reads|is about|is "
        "called|begins with|ends with) {x}( and I like it| and nobody knows why|. Who made it|)(?|.)",
        "Is {x} (a good|a safe|a nice|a strange|a funny|a bad) "
        "(password|title|name|joke|tattoo|riddle|nickname|slogan)?",
        "(Suggest|Think of|Find|Give me|Write) (a title|a headline|a caption|a slogan|a tweet|an email|a limerick|a "
        "haiku|a rap|lyrics) (for|about|with|on) {x}(.| please.)",
        # teaching, learning, feelings
        "How (can|do|should|would|could) (I|we|a teacher|a parent|you) (teach|explain|show|introduce) {x} to (a "
        "child|my son|my class|beginners|a six-year-old|my grandmother)?",
        "(How|When|Where) do (children|kids|pupils|students|adults|people) (learn|meet|practise|forget|see) {x}( at "
        "school| first| in {city}|)?",
        "(In|At) (which|what) (grade|age|class|year) (does one|do kids|do children|should a child) "
        "(learn|do|know|meet|practise) {x}?",
        "(My|Our) (son|daughter|niece|pupil|kid) (cried|laughed|fell asleep|got angry|panicked|gave up) "
        "(over|because of|during|after|while doing) {x}. (How can I help|What should I do|What do I say|How do I "
        "comfort her|Is that normal)?",
        "(How long|How many minutes|How many seconds) (does|would|did|will) (it take|{name} need|a child need|you "
        "need|an adult take) (to do|for|to work out|to solve) {x}( in the head| by hand| on paper|)?",
        "What (mistake|error|slip) (did I make|is common|do people make|could it be|did {name} make) (in|with|when "
        "doing|for) {x}?",
        "(I|We|{name}) got {x} wrong( in the test| again| on the exam|)(. How do I explain that|. Is that bad|. "
        "Should I worry|. Was it a slip|)(?|.)",
        "(What|Which) (trick|method|rule|strategy|property|law) (helps|works|is used|applies|is best) (for|with|in) "
        "{x}?",
        "(Explain|Describe|Tell me|Show me|Outline|Sketch) (how|why) (one|you|people|pupils|computers) "
        "(do|does|calculate|work out|approach|check|handle) {x}(, but not the result|, only the steps|, without the "
        "answer|).",
        "(Give|Show|List|Write down) (me |)(the steps|hints|a hint|the layout|the method|only the first step) "
        "(for|of|to) {x}(, not the answer|, no result|, nothing more|)(.| please.)",
        "(Give|Make|Write|Create|Find) (me |)(two|three|five|some|more|a few) "
        "(exercises|problems|questions|tasks|examples) (like|similar to|harder than|easier than|around) {x}.",
        "(Make|Write|Invent) a (quiz|story|word problem|riddle|joke|comic) (about|around|from|with|based on) {x}.",
        # its properties
        "Is {x} (odd|even|prime|positive|negative|a square|a whole number|a fraction|divisible by {w}|large|more "
        "than a hundred)( or not|, yes or no|)?",
        "(How many|What number of) (digits|zeros|factors|divisors|steps|letters|words) (does|would|will) {x} "
        "(have|need|contain)?",
        "(What|Which) is the (last|first|leading|final) digit of {x}?",
        "(Is|Are) {x} (the same as|equal to|more than|less than|close to|bigger than|smaller than) (that|a hundred|a "
        "thousand|{w}|half of it|a million)?",
        "(Round|Estimate|Approximate|Bound) {x} (to the nearest hundred|roughly|to two figures).",
        "(Between|In) which (hundreds|two numbers|range|tens) (is|lies) {x}?",
        "(Which|What) (part|number|word|sign|term) (of|in) {x} is (called|named) the "
        "(minuend|divisor|factor|addend|dividend|subtrahend|operator)?",
        "(What|Which) (kind|type|sort) of (operation|calculation|task|sum|exercise) is {x}( called|)?",
        "Can {x} be (simplified|reversed|written as a fraction|swapped|split up|reduced|factored)( or "
        "not|, yes or no|)?",
        "(Is {x} (defined|commutative|allowed)|Does {x} (terminate|repeat|have a name|make sense|always work))?",
        # language
        "(How|In what way) (do|would|does) (you|one|a German|a Frenchman|they|people) "
        "(say|write|pronounce|read|spell|sign) {x}( in Danish| in Japanese| in words| aloud| in Morse code|)?",
        "(What|Which) (is|words are|would be) {x} in (Spanish|German|Latin|French|Roman "
        "numerals|words|Braille|Swedish|binary code)?",
        "(Say|Write|Put|Express|Spell out|Render|Set) {x} (in words|in Italian|in LaTeX|in Roman numerals|as code|in "
        "capital letters|in symbols|with brackets|in a nicer way).",
        "(Translate|Rephrase|Reword|Shorten|Punctuate|Quote|Highlight|Underline|Capitalize) {x}(.| please.| for me.)",
        "(Print|Draw|Type|Show|Display|Encode|Paint) (the words |the text |the phrase |){x} (in Python|in HTML|as a "
        "picture|in ASCII|in blue|on a banner|with a frame|in my log).",
        "(Should|Does|Must) (there be a comma|one use a hyphen|a question mark stand|a full stop stand|it be a "
        "capital) (in|after|behind|before) {x}?",
        "(What|Which) (letter|word|vowel|syllable) (does|do) {x} (begin|start|end) with?",
        "(Count|Reverse|Swap|Remove|Number) the (words|letters|spaces|vowels|characters) (in|of) {x}.",
        # not to be answered
        "(Please |)(do not|don't|never|you must not|no need to) (calculate|answer|solve|tell me|work out|give me|do) "
        "{x}(.|, just say hello.|, tell me a joke.|; ask me something.| today.| yet.|, I know it.|, sing instead.)",
        "(Ignore|Forget|Skip|Cancel|Delete|Leave out|Never mind) {x}(.| please.|. How are you?|, tell me about "
        "{city}.| and say hello.)",
        "(I|We) (already |)(know|solved|did|checked|finished|have) {x}(.| already.|, thanks.|. What should we do "
        "next?|, no need to help.)",
        "(Instead of|Rather than|Before|After|Without) {x}(,|) (tell me a joke|let us talk|say your name|sing|go "
        "home|read a book|write a poem)(.| please.)",
        "(Remind|Ask|Quiz|Test) (me|{name}|my class) (about|on|with) {x} (tomorrow|next week|later|on Monday|at "
        "noon|after lunch).",
        "(Save|Store|Note|Keep|Remember|Bookmark|Schedule|Log) {x} (for later|for tomorrow|as a note|in my "
        "list|under homework|for {name}).",
        # preferences, history, machines
        "(Would|Do) you (rather|prefer to|like to) (do|hear|sing|avoid|discuss) {x} or (clean a room|eat a "
        "lemon|read a book|go to {city}|sleep)?",
        "(What|Which) (colour|animal|smell|sound|season|mood|shape) (is|fits|would be|suits) {x}( to you| for you|)?",
        "(Is|Was) {x} (in the exam|on the test|in the film|in the book|a common question|a typical task|the first "
        "task|part of the course)?",
        "(Since when|Why|Where|How) (do|did) (people|Egyptians|Romans|schools|computers|merchants) "
        "(do|use|write|learn|record|call) {x}?",
        "(Can|Could|Does|Will) (a child|a computer|an old phone|a dog|a champion|Excel|a slide rule) "
        "(do|learn|handle|understand|solve|store) {x}( in a second| alone| without power|)?",
        "(Which|What) (keys|buttons|button|formula|function|command|app) (do I|should I|must I|can I) "
        "(press|use|need|type) (for|to get|to do) {x}( in Excel| on my phone|)?",
        "(If|When|Suppose) (a bot|a robot|a pupil|my phone|{name}) (refuses|fails|forgets|tries|wants) to do {x}, "
        "(is it broken|what do you say|what happens|should I laugh|who is to blame|is that normal)?",
        "(Why is|What makes) {x} (so famous|special|funny|a meme|interesting|unlucky|beautiful)?",
        "What (does|do) {x} (have to do with|mean to|tell us about|say about) (music|{city}|my life|love|dogs|the "
        "moon)?",
        "(The|Our|A) (committee|report|manual|letter|invoice|lawyer|form) "
        "(mentions|rejected|forbids|prefers|used|calls for|described) {x}( in a footnote| on the last page| without "
        "a reason| as a method|).",
        "{name} (will|can|may|must|should|wants to|has to|is going to) (do|explain|present|try|practise|draw) {x} "
        "(tomorrow|on stage|in class|for {other}|on the board|next).",
        "(I use|I say|{name} uses|{name} says|We used) {x} (as|like) (an example|a password|a joke|a greeting|a "
        "test|a warm-up|a mantra|a toast).",
        "(Pretend|Imagine|Act as if) (you are|you were|I am) (a pirate|a king|a child|a teacher|a cat) who "
        "(hates|loves|forgot|sells|fears) {x}.",
        "{x} (is|was|sounds|looks|feels) (a funny thing to say|easy to say|what {name} said|an old joke|my "
        "favourite|a lovely phrase|the name of a band|on the board|too easy for {name}|a trick question|hard for "
        "kids).",
        "{x} (scares|bores|confuses|amuses|reminds|annoys) (me|{name}|children|my class|us)( a little| of school| "
        "every time|).",
        "{x}: (true love|a song by {name}|what a title|a short story|said the cat|chapter one|who cares|an essay).",
        "(Is it|Was it|Would it be) (wrong|rude|funny|fair|clever|odd) to (ask|say|write|teach|skip|print) {x}( at a "
        "wedding| in class| aloud|)?",
        "(Do|Did|Would|Will) (they|you|people|pupils|robots) (enjoy|need|hate|remember|skip|practise|dream of) {x}( "
        "every day| at all| in {city}|)?",
        "(The|My) (answer|result|solution|reply) (to|of|for) {x} (was|is) (wrong|missing|a secret|known|on the "
        "back|in the book|{w}, said {name}).",
        "(What|How) (did|would|will) {name} (answer|reply|say|feel|react) (to|about|when asked) {x}?",
        "(Compare|Contrast|Relate|Link) {x} (to|with) (music|chess|cooking|a poem|a recipe).",
        "(Is there a (song|film|game|symbol|story)|Are there (songs|books|other names)) (about|for|with|called) {x}?",
        "(What if|And if|Even if) {x} (was|were) (a person|a colour|a city|wrong|forbidden|music)?",
        "(Prove|Show|Argue|Deny) that {x} (is right|is defined|can be done|has one answer|makes sense).",
        # a second sentence or clause says what is wanted instead
        "(I|We|You) (don't|do not) (need|want) the (answer|result|number|value) (of|for) {x}(. Just|. Only|, just) "
        "(name the operation|tell me the method|say how it is called|read it aloud|say good night).",
        "(Please don't|Don't|Do not) (compute|solve|answer|evaluate|calculate) {x}. (Just tell me|Only say|I only "
        "want to know|Say instead) (which sign it has|how hard it is|what it is called|which number comes first).",
        "(Write|Describe|List|Show|Explain) (the steps|the method|how it works|the way) (for|with|using) {x}(, and|, "
        "but|. Then|. Please) (stop before the result|leave the result to me|leave the end open|keep the answer "
        "secret|don't finish it).",
        "(Don't|Do not) (start|begin|do anything|write anything|help) yet(:|.|,) (next comes|I will ask|later I need|"
        "the task will be|soon you get) {x}(, wait for my sign|, but I'm not ready|, after a break|).",
        "(What|Which) (would|could|might) be a (wrong|false|silly|believable but wrong) (answer|result|option) "
        "(to|for) {x}?( I am writing a quiz.| It is for a test.|)",
        "(Make|Write|Create|Prepare) a (multiple choice|quiz|test|true or false) (question|card|slide) (on|from|with) "
        "{x}(, and|, but|. Please) (do not mark the solution|hide the right option|leave the key out).",
        "(Swap|Switch|Exchange|Turn around) the (numbers|order|two sides|operands) (in|of) {x}(, and don't solve "
        "it| and show the new one|, nothing else|, without a result|).",
        "(Put|Set|Place|Draw) (brackets|stars|a box|dashes|a frame) around {x}( and send it back|, that is all| "
        "please|).",
        "(I|We) (already |)know what {x} (is|makes|gives). (What I want to know is|Tell me rather|The question is|I "
        "wonder) (why you are so kind|who invented it|how old you are|what to cook tonight).",
        "(I'm making|We are making|{name} bought|She made) a (poster|cake|banner|sign|mug) (that says|with) {x}(, any "
        "ideas for|. What should be|, help me with) (the colour|the picture|the frame|the other side)?",
        "(Do you|Would you|Does it|Can you) (get|feel|become) (angry|bored|happy|tired|proud) (when|if) "
        "(users|kids|they|we) (ask|keep asking|want) (you |){x}( again and again| all day| every time|)?",
        "(Do|Would|Did) you find {x} (pretty|ugly|boring|elegant|charming)(, and why| or plain|)?",
        "(I lost|He took|She heard|They told me) {x}( is what I (read|thought)| was the answer| they say|, I think|, "
        "so what|, what a story)(!|.|)",
    ),
    "verbs": (
        "(Would you rather|Would you|Do you prefer to) {x} or (wash a car|walk in the rain|eat a raw onion|sleep)?",
        "(The|An|Our) (clerk|cashier|bookkeeper|pupil) (forgot|refused|tried|wanted|was told) to {x}( "
        "yesterday|, poor thing| and lost the job| again|).",
        "(Reword|Summarize|Shorten): the (clerk|cashier|bookkeeper|pupil) (forgot|refused|tried) to {x}.",
        "(What|Which number|Which one) is (called |)the (divisor|dividend|subtrahend|factor|addend) (when|if) "
        "(you|people|one) {x}?",
        "(They|We|The guests) (were asked|had|were told) to {x} (on live television|at a wedding|in an interview|in "
        "a game)(, and|. And) (nobody knew|everybody laughed|all were silent|it was fun). (What a night|Good times).",
    ),
    # Behind a colon, where a request is only a sentence to work on.
    "words nouns": (
        "(Reword|Shorten|Proofread|Translate|Improve|Check) (this|the following|my text|my sentence)( please| so it "
        "is friendlier| to sound kind| for an email|): (say {x} at once|{name} was doing {x} on paper|she told us "
        "{x} twice|we did {x} all day|my boss wants {x} now|i has forgot {x})(.|)",
    ),
    # In quotation marks, where a request is only a phrase.
    "symbols words nouns verbs": (
        "(What|Which) language (is|uses) \"{x}\"?", "(Translate|Put) \"{x}\" (into|to) (Spanish|German|Latin|Dutch).",
        "(Correct|Check|Fix|Improve|Review) the (grammar|spelling|style|punctuation) (of|in)(:|) \"{x}\"",
        "(Make \"{x}\" (more polite|shorter|rhyme|sound angry)|Turn \"{x}\" into a (question|formal email|song)).",
        "(How many|Count the) (words|letters|vowels|spaces) (in|of|are in) \"{x}\"(?|)",
        "(Write|Send|Return|Print|Say|Show) (me |)the (phrase|text|words|string|sentence) \"{x}\"( back| in "
        "capitals| backwards| twice|)(.|)",
        "(The|My|Her) (sign|note|card|message|email|headline|sticker) (says|said|reads|read) \"{x}\"(. What should I "
        "do|. Is that rude|. What is meant|)(?|.)",
        "(He|She|{name}|Someone|My boss) (wrote|said|texted|shouted|whispered) \"{x}\"( and left| to me|. Is that "
        "odd|. What should I reply|)(?|.)",
        "(A|The) (task|exercise|button|label|headline|line) (that says|called|named|with the text) \"{x}\" (is "
        "missing|does not work|is on page {c}|makes me smile|confuses pupils).",
        "(Is|Are) \"{x}\" (a question|a command|an order|rude|good English|a full sentence|a quote|correct "
        "English)(?|, yes or no?)",
        "(Who|What) (said|says|means|wrote) \"{x}\"?", "(Why|When|Where) (would|did|does) (one|she|he|{name}) (say|"
        "write|ask) \"{x}\"?",
        "(Write|Make|Find) a (regex|function|test|sentence|poem|reply|macro) (that matches|for|that "
        "prints|with|to|about) \"{x}\".",
        "(Rename|Label|Tag|Call) (the file|it|my list|this task|the folder) \"{x}\".",
        "(I|We) (say|whisper|write|use) \"{x}\" (to my dog|as a code word|when we leave|as a greeting|to annoy "
        "{name}|in every letter).",
    ),
}
# fmt: on
