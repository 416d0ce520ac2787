"""Texts that name a calculation and ask for something else, as pools that `grammar` splits.

`FRAMES` hold an expression of `requests` at `{x}`: somebody says it, a song is called so, it is to be translated, its
sign is asked for. None asks for its value. What stands around a request in chatty talk (`everyday.FRAMES`, `my boss
asks {x}`) is close to these on purpose: only the whole sentence says what is asked. Fields: {name} {other} {city},
{c} a number, {w} one in words. Only data, no logic.
Try it: `pytest tests/data/test_wording.py -k mention`
"""

__all__ = ["FRAMES"]

# fmt: off
# By the forms of `requests.EXPRESSIONS` that fit.
FRAMES: dict[str, tuple[str, ...]] = {
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
